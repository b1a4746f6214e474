"""Matrix steps of a warp group in the replay: each path of a text is a launch of its own here."""

from __future__ import annotations

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, replay
from tests.walk.products import COMMIT, STEP, WAIT, looped, product

WRITE_A = "st.shared.b32 [%r32], %r11;"
SKIPPED = f"@%p7 bra $over;\n{WAIT}\n$over:"  # where n > 7


def _run(source: str, n: int = 8) -> ReplayResult:
    return replay(lower(parse(source)), {"grid": [1, 1, 1], "args": [
        {"buffer": "a", "dtype": "f16", "elements": 16384, "role": "in"},
        {"buffer": "b", "dtype": "f16", "elements": 2048, "role": "in"},
        {"buffer": "c", "dtype": "f32", "elements": 512, "role": "out"}, {"i32": n}]})


@pytest.mark.parametrize("after", [f"{COMMIT}\n{SKIPPED}", f"{COMMIT}\n@!%p7 {WAIT}",
                                   f"@!%p7 {COMMIT}\n{WAIT}", f"{WAIT}\n{COMMIT}",
                                   f"{COMMIT}\n@!%p7 {WAIT}\nmov.f32 %f11, 0f3F800000;\n{WAIT}"])
def test_registers_used_before_the_wait_rest_on_a_premise(after: str) -> None:
    """The assembler waits there: only where the path is taken that does not."""
    assert "wgmma-serialized" in _run(product(after), 8).premises
    clean = _run(product(after), 7)
    assert clean.usable
    assert ("wgmma-serialized" in clean.premises) == (after == f"{WAIT}\n{COMMIT}")
    assert clean.digest == _run(product(), 7).digest or "mov" in after


@pytest.mark.parametrize("after", [f"{COMMIT}\n{SKIPPED}\n{WRITE_A}\n{WAIT}",
                                   f"@!%p7 {COMMIT}\n{WAIT}\n{WRITE_A}\n{COMMIT}\n{WAIT}"])
def test_shared_bytes_that_a_step_still_reads(after: str) -> None:
    """No assembler waits there: that is a race, on the path where it happens."""
    after = after.replace(WRITE_A, f"bar.sync 0;\n{WRITE_A}")
    assert "async-overwrite" in {f.code for f in _run(product(after), 8).findings}
    assert _run(product(after), 7).usable


def test_a_ring_that_is_waited_for_one_round_late() -> None:
    late = looped(wait=WAIT.replace("0;", "1;"), last=WAIT)
    assert not _run(late, 3).usable
    assert _run(late, 1).usable
    assert _run(looped(), 3).usable


def test_an_operand_in_registers_that_is_overwritten() -> None:
    step = STEP.replace("%rd20", "{%r20, %r21, %r22, %r23}").replace("1, 1, 0, 0", "1, 1, 0")
    assert not {"wgmma-serialized"} & set(_run(product(step=step)).premises)
    early = _run(product(f"{COMMIT}\nmov.u32 %r21, 0;\n{WAIT}", step=step))
    assert "wgmma-serialized" in early.premises


@pytest.mark.parametrize("op", [COMMIT, WAIT])
def test_whether_a_group_is_over_may_not_hang_on_data(op: str) -> None:
    other = WAIT if op is COMMIT else COMMIT
    text = f"setp.eq.u32 %p9, %r20, 0;\n@%p9 {op}\n{other}"
    found = _run(product(text if op is COMMIT else f"{COMMIT}\n{text}"))
    assert found.unsupported is not None
    assert found.unsupported.code == "data-dependent"
