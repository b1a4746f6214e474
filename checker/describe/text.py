"""A descriptor as text, one fact a line."""

from __future__ import annotations

from typing import Any

from checker.describe.words import Data

__all__ = ["facts", "lines"]


def lines(data: Data) -> list[str]:
    """The descriptor as text."""
    out = [f"kernel {data['kernel']} ({data['isa']}, {data['target']})  {data['signature']}",
           f"descriptor {data['descriptor']}"]
    if data["nondeterministic"]:
        out.append("nondeterministic: the bits depend on the order of arrival")
    elif not data["modelled"]:
        out.append("not modelled: equal to no other kernel, whatever the words say")
    if "why" in data:
        return [*out, f"tree {data['tree']}", f"  no words: {data['why']}"]
    for output in data["outputs"]:
        kinds = "1 kind" if output["kinds"] == 1 else f"{output['kinds']} kinds"
        out += ["", f"{output['kind']} to {output['output']}: {kinds} of element"]
        for order in output["orders"]:
            out.append(f"  epilogue  {_epilogue(order)}")
            for reduction in order["reductions"]:
                out.append(f"  {reduction['name']}  {reduction['kind']}")
                out += _fields(reduction, "      ")
        if "without_words" in output:
            more = output["without_words"]
            said = "1 more kind is" if more == 1 else f"{more} more kinds are"
            out.append(f"  {said} in the tree's digest only")
        out.append(f"  tree {output['tree']}")
    return out


def _epilogue(order: Data) -> str:
    return "; then ".join([order["of"], *order["epilogue"]])


def facts(order: Data) -> dict[str, str]:
    """What is said of one kind of element: each fact by its place, `R1 sum: cuts`, say."""
    out = {"epilogue": _epilogue(order)}
    for reduction in order["reductions"]:
        name = f"{reduction['name']} {reduction['kind']}"
        out[name] = "there"
        for line in _fields(reduction, ""):
            place, _, value = line.strip().partition(" ")
            at = f"{name}: {place}"
            out[at] = f"{out[at]}; {value.strip()}" if at in out else value.strip()
    return out


def _fields(data: Data, indent: str) -> list[str]:
    """The fields of a reduction, one a line."""
    out = []
    for name, value in data.items():
        if name in ("name", "kind"):
            continue
        if name == "running":
            for acc in value:
                out.append(f"{indent}{acc['name']} starts at {acc['start']}, "
                           f"becomes {acc['step']}")
        elif name in ("gemm", "attention"):
            out.append(f"{indent}{name}")
            out += [f"{indent}  {k:14} {_short(v)}" for k, v in value.items()]
        else:
            out.append(f"{indent}{name:14} {_short(value)}")
    return out


def _short(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        shown = ", ".join(f"{a}..{b}" for a, b in value[:8])
        return shown + (", ..." if len(value) > 8 else "")
    if isinstance(value, list) and not value:
        return "none"
    if isinstance(value, list) and all(isinstance(v, dict) and v.get("layout") == "tree"
                                       for v in value):
        return f"halves, {', '.join(str(v.get('distance') or '?') for v in value)} apart"
    if isinstance(value, list):
        return "; ".join(_short(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {_short(v)}" for k, v in value.items())
    return str(value)
