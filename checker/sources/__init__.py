"""Where kernels come from: files, folders, globs, manifests and compiler caches."""

from checker.sources.glance import (
    Headline,
    Source,
    Sources,
    Unreadable,
    entry_line,
    headline,
    readable_name,
)
from checker.sources.read import (
    ASSEMBLY_SUFFIXES,
    decoded,
    load_json,
    read,
    read_text,
    split_entries,
)

__all__ = [
    "ASSEMBLY_SUFFIXES", "Headline", "Source", "Sources", "Unreadable", "decoded",
    "entry_line", "headline", "load_json", "read", "read_text", "readable_name", "split_entries",
]
