"""A worker process: examines kernels that it is handed as JSON lines, until its input ends.

    python -m checker.cache.worker

In: one line a kernel: name, text, isa, kernel, launches, replay_only. Out: one line each: `{"ok":
...}` with the data of `checker.api.Examined`, or `{"error": message}`. Nothing is shared with the
parent, so a kernel that runs out of time or memory takes nothing else along.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from checker.errors import LaunchError, SamebitsError
from checker.results import KernelInput, Reason, Signature

__all__ = ["answer", "by_replay", "main"]

KEPT = 64  # replays shared between kernels with one signature


def answer(kernel: KernelInput, examine: Callable[..., Any], known: dict[Any, Any]) -> Any:
    """Examine one kernel; returns the line's data."""
    from checker.cache.defects import defects

    if len(known) > KEPT:
        known.clear()
    try:
        with defects():
            return {"ok": examine(kernel, known=known).to_json()}
    except LaunchError as error:
        return {"error": f"launch facts: {error}"}
    except SamebitsError as error:
        return {"error": str(error)}


def by_replay(kernel: KernelInput, *, known: Any = None) -> Any:
    """Examine a kernel at its launches only: no walk, so no static signature."""
    from checker import api

    runs = [
        api.replay_kernel(
            kernel.text, facts, isa=kernel.isa, kernel=kernel.kernel, file=kernel.name
        )
        for facts in kernel.launches
    ]
    program = api.program_of(
        kernel.text, isa=kernel.isa, kernel=kernel.kernel, file=kernel.name
    )
    reasons: list[Reason] = []
    for run in runs:
        reasons += run.findings
        if run.nondeterministic:
            reasons.append(Reason("nondeterministic", "the kernel has no fixed bits"))
        if run.unsupported:
            reasons.append(Reason("replay", str(run.unsupported)))
    premises = sorted({"launch"}.union(*(run.premises for run in runs)))
    # never equal by this digest to anything but the same text in full
    own = hashlib.blake2b(
        f"{kernel.isa}|{kernel.kernel}|{kernel.text}".encode("utf-8", "surrogatepass"),
        digest_size=20,
    ).hexdigest()
    signed = Signature(
        f"text-{own}", kernel.kernel or kernel.name, program.isa, program.target, False,
        findings=tuple(f for run in runs for f in run.findings),
        nondeterministic=any(run.nondeterministic for run in runs),
    )
    return api.Examined(
        kernel.name, signed, tuple((p.size_bytes, p.pointer) for p in program.params),
        digests=tuple(None if reasons else run.digest for run in runs), program=own,
        premises=tuple(premises), reasons=tuple(reasons),
    )


def main() -> None:
    """Answer lines until the input ends."""
    from checker import api

    known: dict[Any, Any] = {}
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write into the answers
    for line in sys.stdin:
        data = json.loads(line)
        kernel = KernelInput(
            data["name"], data["text"], isa=data["isa"], kernel=data["kernel"],
            launches=tuple(data["launches"]),
        )
        examine = by_replay if data["replay_only"] else api.examine
        out.write(json.dumps(answer(kernel, examine, known)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
