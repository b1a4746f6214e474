"""The house's one-way street: imports point down the pipeline, engines know no vendor."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A module may import modules of a lower rank, or of its own group.
RANKS: list[tuple[str, int]] = [
    ("checker.record", -1),
    ("checker.collector", 0),
    ("checker.arrays", 0),
    ("checker.errors", 0),
    ("checker.syntax", 1),
    ("checker.core", 2),
    ("checker.results", 2),
    ("checker.build", 3),
    ("checker.premises", 3),
    ("checker.knobs", 3),
    ("checker.shapes", 3),
    ("checker.graphs", 3),
    ("checker.ptx", 4),
    ("checker.gcn", 4),
    ("checker.parse", 5),
    ("checker.lower", 5),
    ("checker.dump", 5),
    ("checker.contract", 5),
    ("checker.draws", 5),
    ("checker.cfg", 4),
    ("checker.launch", 5),
    ("checker.arith", 5),
    ("checker.assume", 6),
    ("checker.tree", 6),
    ("checker.walk", 7),
    ("checker.replay", 7),
    ("checker.approach", 8),
    ("checker.kernel", 8),
    ("checker.witness", 9),
    ("checker.sweep", 9),
    ("checker.api", 10),
    ("checker", 11),
    ("checker.describe", 11),
    ("checker.sources", 12),
    ("checker.cache", 12),
    ("checker.client", 12),
    ("checker.gate", 13),
    ("checker.hooks", 14),
    ("server", 15),
    ("checker.cli", 16),
    ("corpus", 17),
]
UNRANKED = -2
ENGINES = ("tree", "walk", "replay")
VENDOR_WORDS = re.compile(
    r"\b(ptx|gcn|amdgcn|nvidia|amd|cuda|hip|vgprs?|sgprs?|waitcnt|gfx\d+|sm_\d+)\b", re.IGNORECASE
)


def _modules() -> list[tuple[str, Path]]:
    found = []
    for package in ("checker", "server"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append((name, path))
    return found


def _group(name: str) -> tuple[str, int]:
    if name == "checker":
        return ("checker", 11)
    best = ("", UNRANKED)
    for prefix, rank in RANKS:
        matches = name == prefix or (prefix != "checker" and name.startswith(prefix + "."))
        if matches and len(prefix) > len(best[0]):
            best = (prefix, rank)
    return best


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            known = {name for name, _ in _modules()}
            names |= {f if f in known else node.module for f in full}
    return {n for n in names if n.split(".")[0] in {"checker", "server", "corpus"}}


def test_every_module_has_a_rank() -> None:
    unranked = [name for name, _ in _modules() if _group(name)[1] == UNRANKED]
    assert not unranked


def test_imports_point_one_way() -> None:
    wrong = []
    for name, path in _modules():
        group, rank = _group(name)
        for target in sorted(_imports(path)):
            other, other_rank = _group(target)
            if other != group and other_rank >= rank:
                wrong.append(f"{name} imports {target}")
    assert not wrong


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_hold_no_vendor_word(engine: str) -> None:
    hits = []
    for path in sorted((ROOT / "checker" / engine).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if VENDOR_WORDS.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not hits


def test_public_names_are_exactly_all() -> None:
    import checker

    assert sorted(checker.__all__) == list(checker.__all__)
    for name in checker.__all__:
        assert getattr(checker, name) is not None
    assert set(checker._HOME) | {"CHECKER_VERSION"} == set(checker.__all__)
    with pytest.raises(AttributeError):
        _ = checker.no_such_name
