"""pytest plugin: kernels compiled in a test against the committed baseline.

    def test_gemm(samebits_gate):
        samebits_gate(kernel.warmup(...), config={"BLOCK_K": 32})

In: compiled kernels (an object with `asm`, assembly text, or a path). Out: a failed test where the
baseline says otherwise; with `--samebits-update`, entries written to it when the session ends. The
baseline is the ini option `samebits_baseline` (default samebits.lock), relative to the root folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from checker.gate.lockfile import Entry, Lock
    from checker.sources import Source

__all__ = ["SamebitsGate", "samebits_gate"]

_GATE = "_samebits_gate"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --samebits-update and the ini option samebits_baseline."""
    group = parser.getgroup("samebits", "bitwise drift of compiled kernels")
    group.addoption(
        "--samebits-update", action="store_true", help="write kernels to the samebits baseline"
    )
    parser.addini("samebits_baseline", "path of the samebits baseline", default="samebits.lock")


class SamebitsGate:
    """Checks kernels against the baseline, or collects them for it."""

    def __init__(self, baseline: Path, update: bool) -> None:
        self.baseline = baseline
        self.update = update
        self.entries: list[Entry] = []
        self._lock: Lock | None = None

    def __call__(
        self, kernel: Any, *, name: str | None = None, config: Mapping[str, Any] | None = None,
        isa: str | None = None, entry: str | None = None,
    ) -> None:
        """Check one kernel; fails the test where it drifted.

        kernel: a compiled Triton kernel, assembly text or a path. name, config: how the baseline
        names it; taken from the kernel where not given. entry: where the text has several.
        """
        __tracebackhide__ = True
        from checker.cache import Examiner, open_default
        from checker.errors import SamebitsError
        from checker.gate import check as gate
        from checker.gate.lockfile import Lock
        from checker.sources import Sources

        try:
            source = _source(kernel, name, config, isa, entry)
            current = gate.sign_all(Sources((source,)), Examiner(open_default(), jobs=0))
            if current.errors:
                pytest.fail(current.errors[0].message, pytrace=False)
            now = current.kernels[0]
            if self.update:
                self.entries.append(now.entry)
                return
            lock = self._load()
        except SamebitsError as error:
            pytest.fail(str(error), pytrace=False)
        mine = Lock(lock.checker, tuple(e for e in lock.entries if e.key == now.entry.key))
        for result in gate.check(mine, current, allow_missing=True).results:
            if result.drifted:
                rows = [f"samebits: {result.kind}: {result.key}", result.message, *result.details]
                rows.append(f"if this is meant: pytest --samebits-update ({self.baseline.name})")
                pytest.fail("\n  ".join(rows), pytrace=False)

    def _load(self) -> Lock:
        from checker.gate.lockfile import LockError, load

        if self._lock is None:
            if not self.baseline.is_file():
                raise LockError(f"{self.baseline} is missing: run pytest --samebits-update")
            self._lock = load(self.baseline.read_text(), name=self.baseline.name)
        return self._lock

    def write(self) -> str:
        """Merge the collected entries into the baseline; returns what was done, in one line."""
        from checker.gate import lockfile

        old = self.baseline.read_text() if self.baseline.is_file() else ""
        kept = lockfile.load(old, name=self.baseline.name).entries if old else ()
        keys = {entry.key for entry in self.entries}
        unique = {(e.key, e.signature, e.text): e for e in self.entries}.values()
        new = lockfile.dump([*(e for e in kept if e.key not in keys), *unique])
        if new != old:
            self.baseline.write_text(new)
        return f"samebits: {self.baseline.name} {'written' if new != old else 'unchanged'}, " \
            f"{len(unique)} kernels of this run"


def _source(
    kernel: Any, name: str | None, config: Mapping[str, Any] | None, isa: str | None,
    entry: str | None,
) -> Source:
    from checker.errors import UsageError
    from checker.results import KernelInput
    from checker.sources import Source, headline, read_text, readable_name

    path, compiler, knobs = "", "", dict(config or {})
    if hasattr(kernel, "asm"):
        text = kernel.asm.get("ptx") or kernel.asm.get("amdgcn") or ""
        text = text.decode() if isinstance(text, bytes) else text
        metadata = getattr(kernel, "metadata", None)
        entry = entry or getattr(metadata, "name", None)
        version = getattr(metadata, "triton_version", "")
        compiler = f"triton {version}" if version else ""
        for key in ("num_warps", "num_stages"):
            if hasattr(metadata, key):
                knobs.setdefault(key, getattr(metadata, key))
    elif isinstance(kernel, Path) or (isinstance(kernel, str) and "\n" not in kernel):
        path, text = str(kernel), read_text(Path(kernel))
    elif isinstance(kernel, str):
        text = kernel
    else:
        raise UsageError(f"samebits_gate takes a kernel, a text or a path, not {type(kernel)}")
    seen = headline(text)
    entry = entry or (seen.entries[0] if len(seen.entries) == 1 else None)
    label = name or readable_name(entry or "kernel")
    one = KernelInput(label, text, isa=isa, kernel=entry, config=knobs)
    return Source(
        one, path, entry or "", seen.target, compiler or seen.compiler, label, knobs
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the session's gate."""
    baseline = config.rootpath / str(config.getini("samebits_baseline"))
    setattr(config, _GATE, SamebitsGate(baseline, bool(config.getoption("--samebits-update"))))


@pytest.fixture
def samebits_gate(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Check compiled kernels against the samebits baseline."""
    gate: SamebitsGate = getattr(request.config, _GATE)
    return gate


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's entries to its controller (pytest-xdist)."""
    gate: SamebitsGate = getattr(session.config, _GATE)
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["samebits_entries"] = [asdict(entry) for entry in gate.entries]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take over the entries of a worker that is done."""
    from checker.gate.lockfile import Entry

    gate: SamebitsGate = getattr(node.config, _GATE)
    rows = getattr(node, "workeroutput", {}).get("samebits_entries", [])
    gate.entries += [Entry(**row) for row in rows]


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Write the baseline, if asked to and if no test failed."""
    gate: SamebitsGate = getattr(config, _GATE)
    if not gate.update or not gate.entries:
        return
    if exitstatus == 0:
        terminalreporter.write_line(gate.write())
    else:
        terminalreporter.write_line("samebits: tests failed, so the baseline was not written")
