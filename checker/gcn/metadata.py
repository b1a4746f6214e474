"""The YAML between `.amdgpu_metadata` and `.end_amdgpu_metadata` -> kernel records.

In: the lines of the block. Out: one `KernelMetadata` per kernel. Reads the subset of YAML that LLVM
prints (maps, lists of maps, scalars); lines that do not fit are skipped, never an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Argument", "KernelMetadata", "read_metadata"]


@dataclass(slots=True)
class Argument:
    """One kernel argument: byte offset, size, value kind (`global_buffer`, `hidden_...`), name."""

    offset: int = 0
    size: int = 0
    kind: str = "by_value"
    name: str = ""
    space: str = ""

    @property
    def hidden(self) -> bool:
        """True for arguments that the runtime adds."""
        return self.kind.startswith("hidden_")


@dataclass(slots=True)
class KernelMetadata:
    """One kernel: its arguments and the scalar keys (`.wavefront_size` -> "64")."""

    name: str = ""
    args: list[Argument] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)


_LINE = re.compile(r"^(?P<indent> *)(?P<dash>- +)?(?:(?P<key>[\w.$]+|'[^']*'|\"[^\"]*\") *:"
                   r"(?: +(?P<value>.*))?|(?P<scalar>\S.*))$")


def read_metadata(lines: list[str]) -> list[KernelMetadata]:
    """Return the kernels of `amdhsa.kernels`."""
    kernels: list[KernelMetadata] = []
    section = ""
    kernel_indent = key_indent = -1
    current_list = ""
    for line in lines:
        match = _LINE.match(line.rstrip())
        if match is None:
            continue
        indent = len(match["indent"])
        key = (match["key"] or "").strip("'\"")
        value = (match["value"] or "").strip().strip("'\"")
        if indent == 0 and not match["dash"]:
            section, kernel_indent = key, -1
            continue
        if section != "amdhsa.kernels":
            continue
        if match["dash"] and (kernel_indent < 0 or indent == kernel_indent):
            kernel_indent, key_indent = indent, indent + len(match["dash"])
            kernels.append(KernelMetadata())
            current_list = ""
        if not kernels:
            continue
        inner = indent + len(match["dash"] or "")
        if inner == key_indent and key and not (match["dash"] and indent != kernel_indent):
            current_list = key if not value else ""
            if value:
                kernels[-1].values[key] = value
            continue
        _nested(kernels[-1], current_list, bool(match["dash"]), key, value, match["scalar"])
    for kernel in kernels:
        kernel.name = kernel.values.get(".name", "")
    return kernels


def _nested(kernel: KernelMetadata, parent: str, dash: bool, key: str, value: str,
            scalar: str | None) -> None:
    if parent == ".args":
        if dash:
            kernel.args.append(Argument())
        if kernel.args:
            _set(kernel.args[-1], key, value)
    elif scalar is not None and parent:
        joined = kernel.values.get(parent, "")
        kernel.values[parent] = (joined + " " + scalar.strip()).strip()


def _set(arg: Argument, key: str, value: str) -> None:
    if key == ".offset" and value.isdigit():
        arg.offset = int(value)
    elif key == ".size" and value.isdigit():
        arg.size = int(value)
    elif key == ".value_kind":
        arg.kind = value
    elif key == ".name":
        arg.name = value
    elif key == ".address_space":
        arg.space = value
