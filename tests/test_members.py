"""Member masks: who runs an exchange between lanes must be who its mask names, in both engines."""

from __future__ import annotations

import pytest

from checker import api
from tests.replay import listing
from tests.walk.kernels import equal, text, walked

HALF = "setp.lt.u32 %p1, {lane}, 16;\nmov.b32 %r20, 0;\n@!%p1 {leave};\n{run}\nD:\n"
PAIR = "shfl.sync.bfly.b32 %r20, %r21, 1, 31, {mask};"
VOTE = "setp.gt.s32 %p2, %r21, 0;\nvote.sync.ballot.b32 %r20, %p2, {mask};"
SUM = "redux.sync.add.u32 %r20, %r21, {mask};"
BARRIER = "mov.b32 %r20, %r21;\nbar.warp.sync {mask};"
HALVES = ("and.b32 %r22, {lane}, 16;\nmov.b32 %r23, 0xffff;\nshl.b32 %r23, %r23, %r22;\n"
          + PAIR.format(mask="%r23"))
TILES = HALVES.replace("bfly.b32 %r20, %r21, 1,", "bfly.b32 %r20, %r21, 16,")
FULL, FEW = "-1", "0xffff"

#: what is run, and whether it is sound
CASES = {
    "all": (PAIR.format(mask=FULL), True),
    "half of those that run it": (PAIR.format(mask=FEW), False),
    "half, run by that half": (HALF.replace("{run}", PAIR.format(mask=FEW)), True),
    "all, run by a half": (HALF.replace("{run}", PAIR.format(mask=FULL)), False),
    "all, the others have exited": (
        HALF.replace("{leave}", "exit").replace("{run}", PAIR.format(mask=FULL)), True),
    "two groups at once": (HALVES, True),
    "from another group": (TILES, False),
    "a vote of all, run by a half": (HALF.replace("{run}", VOTE.format(mask=FULL)), False),
    "a vote of that half": (HALF.replace("{run}", VOTE.format(mask=FEW)), True),
    "a barrier of one lane": (BARRIER.format(mask="1"), False),
    "a barrier of all": (BARRIER.format(mask=FULL), True),
    "a barrier of all, run by a half": (
        HALF.replace("{run}", BARRIER.format(mask=FULL)), False),
    "a sum of all, run by a half": (HALF.replace("{run}", SUM.format(mask=FULL)), False),
}


def _walk(body: str) -> str:
    body = body.replace("{lane}", "%r2").replace("{leave}", "bra D")
    return text("mul.wide.u32 %rd10, %r2, 4;\nadd.s64 %rd11, %rd1, %rd10;\n"
                "ld.global.b32 %r21, [%rd11];\n" + body
                + "\nadd.s64 %rd12, %rd3, %rd10;\nst.global.b32 [%rd12], %r20;\n", threads=32)


def _replay(body: str) -> str:
    body = body.replace("{lane}", "%r1").replace("{leave}", "bra D")
    return "ld.global.b32 %r21, [%rd4];\n" + body + "\nst.global.b32 [%rd5], %r20;\n"


@pytest.mark.parametrize("name", CASES)
def test_who_runs_an_exchange_is_whom_it_names(name: str) -> None:
    body, sound = CASES[name]
    found = {f.code for f in walked(_walk(body)).findings} - {"unmodelled"}
    run = listing.run(_replay(body), threads=32)
    assert (not found) == sound
    assert (not listing.codes(run)) == sound
    if not sound:
        assert not api.compare(_walk(body), _walk(body)).equal


def test_a_vote_does_not_count_lanes_that_are_off() -> None:
    """No member mask hides them where a text names all lanes (AMD masks are of this kind)."""
    whole = VOTE.format(mask=FULL).replace("%r20", "%r24") + (
        "\nmov.b32 %r20, 0;\n@%p1 mov.b32 %r20, %r24;")
    start = "setp.lt.u32 %p1, {lane}, 16;\n"
    part = HALF.replace("{run}", VOTE.format(mask=FEW))
    assert not equal(_walk(start + whole), _walk(part))
    two = [listing.run(_replay(b), threads=32).digest for b in (start + whole, part)]
    assert two[0] != two[1]


def test_a_mask_that_is_data_is_not_modelled() -> None:
    assert not walked(_walk(PAIR.format(mask="%r21"))).modelled
