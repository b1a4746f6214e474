"""Where kernels come from: files, folders, globs, manifests and compiler caches."""

from checker.sources.read import (
    ASSEMBLY_SUFFIXES,
    Headline,
    Source,
    Sources,
    Unreadable,
    headline,
    load_json,
    read,
    read_text,
    split_entries,
)

__all__ = [
    "ASSEMBLY_SUFFIXES", "Headline", "Source", "Sources", "Unreadable", "headline", "load_json",
    "read", "read_text", "split_entries",
]
