"""Barriers order what is there when waves arrive; named ones those that join, by LLVM's M0."""

from __future__ import annotations

import pytest

from checker import api
from checker.gcn.lower import lower_gcn
from checker.gcn.parser import parse_gcn
from checker.replay import ReplayResult, replay
from tests.gcn.bench import text_of, unmodelled

START = ["s_mov_b32 m0, 0x{0:x}0003", "s_barrier_init m0", "s_mov_b32 m0, 3", "s_barrier_join m0",
         "s_barrier_signal -1", "s_barrier_wait -1"]
WRITE = ["ds_store_b32 v0, v1", "s_wait_dscnt 0x0"]
MEET = ["s_barrier_signal 3", "s_barrier_wait 1"]
READ = ["v_xor_b32_e32 v4, 0x80, v0", "ds_load_b32 v10, v4", "s_wait_dscnt 0x0"]


def _start(members: int = 2) -> list[str]:
    return [line.format(members) for line in START]


def _two_waves(lines: list[str]) -> ReplayResult:
    """Replay a block of two waves of 32."""
    buffers = [{"buffer": n, "dtype": "u32", "elements": 64, "role": "in"} for n in "abc"]
    facts = {"grid": [1, 1, 1], "block": [64, 1, 1], "shared": 4096, "args": [
        *buffers, {"buffer": "out", "dtype": "u32", "elements": 128, "role": "out"}]}
    return replay(lower_gcn(parse_gcn(_text(lines))), facts)


def _text(lines: list[str]) -> str:
    return text_of(lines, "gfx1200").replace("workgroup_size: 32", "workgroup_size: 64")


def test_waves_exchange_through_a_named_barrier() -> None:
    named = _two_waves([*_start(), *WRITE, *MEET, *READ])
    group = _two_waves([*WRITE, "s_barrier_signal -1", "s_barrier_wait -1", *READ])
    assert named.usable, named.reasons()
    assert named.digest == group.digest


SIGNAL, WAIT = "s_barrier_signal -1", "s_barrier_wait -1"
STORE, LAND = WRITE
AGAIN = ["ds_store_b32 v0, v2", LAND]


@pytest.mark.parametrize(("good", "early", "code"), [
    ([STORE, LAND, SIGNAL, WAIT, *READ], [STORE, SIGNAL, WAIT, LAND, *READ], "race-read"),
    ([STORE, LAND, SIGNAL, WAIT, *READ], [STORE, SIGNAL, LAND, WAIT, *READ], "race-read"),
    ([*WRITE, SIGNAL, WAIT, *READ, SIGNAL, WAIT, *AGAIN],
     [*WRITE, SIGNAL, WAIT, *READ[:2], SIGNAL, WAIT, LAND, *AGAIN], "race-overwrite"),
    ([*_start(), *WRITE, *MEET, *READ], [*_start(), STORE, *MEET, *READ], "race-read")])
def test_a_barrier_orders_only_what_the_wave_has_waited_for(good: list[str], early: list[str],
                                                            code: str) -> None:
    assert _two_waves(good).usable
    assert code in {reason.code for reason in _two_waves(early).reasons()}
    if "s_barrier_init m0" not in good:  # the walk does not follow those of a part of the block
        assert api.sign(_text(good)).modelled
        assert not api.sign(_text(early)).modelled


def test_an_exchange_between_lanes_may_be_under_way_at_a_barrier() -> None:
    exchange = "ds_bpermute_b32 v11, v0, v2"
    assert _two_waves([*WRITE, exchange, SIGNAL, WAIT, *READ]).usable


def test_the_count_may_come_with_the_signal() -> None:
    lines = ["s_mov_b32 m0, 3", "s_barrier_join m0", *WRITE, "s_mov_b32 m0, 0x20003",
             "s_barrier_signal m0", "s_barrier_wait 1", *READ]
    assert _two_waves(lines).usable


def test_waves_that_do_not_meet_race() -> None:
    found = _two_waves([*_start(), *WRITE, *READ])
    assert "race-read" in {reason.code for reason in found.reasons()}


def test_a_barrier_at_which_more_waves_arrive_than_it_expects_orders_nothing() -> None:
    found = _two_waves([*_start(1), *WRITE, *MEET, *READ])
    assert [reason.code for reason in found.reasons()] == ["barrier"]


def test_a_barrier_that_waits_for_more_waves_than_there_are_is_no_barrier() -> None:
    assert not _two_waves([*_start(3), *WRITE, *MEET, *READ]).usable


@pytest.mark.parametrize(("lines", "reason"), [
    (MEET, "not joined on every path"),
    (["s_barrier_join 3", *MEET], "member count is not known"),
    (["s_barrier_init 3"], "member count is not known"),
    (["s_mov_b32 m0, s20", "s_barrier_join m0"], "number is not known"),
    ([*_start(), "s_mov_b32 m0, 0x30003", "s_barrier_init m0"], "member count changes"),
    (["s_barrier_signal -2"], "trap handler"),
    (["s_barrier_signal -1"], "without its own wait"),
    (["s_barrier_signal -1", "s_barrier_signal -1", "s_barrier_wait -1"], "without its own wait"),
    ([*_start(), "s_barrier_join 2", *MEET], "between signal and wait"),
    ([*_start(), MEET[0], *WRITE, MEET[1]], "between signal and wait"),
    (["s_barrier_signal_isfirst -1"], "order in which waves arrive"),
    (["s_get_barrier_state s24, 3"], "order in which waves arrive"),
    (["s_barrier_leave"], "order in which waves arrive"),
    ([*_start()[:4], "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 .LBB0_1", "s_barrier_join 2",
      ".LBB0_1:", *MEET], "not joined on every path"),
])
def test_what_is_not_followed_is_refused(lines: list[str], reason: str) -> None:
    assert any(reason in r for r in unmodelled(lines, "gfx1200")), unmodelled(lines, "gfx1200")


def _in_memory(lines: list[str], target: str) -> str:
    """A block of two waves, and the room that they need in `out`."""
    lanes = 64 if target == "gfx942" else 32
    text = text_of(lines, target).replace("offset:256", "offset:1024")
    return text.replace(f"workgroup_size: {lanes}", f"workgroup_size: {2 * lanes}")


PUT = {"gfx942": ("global_store_dword v0, v1, s[14:15] offset:2048", "s_waitcnt vmcnt(0)"),
       "gfx1100": ("global_store_b32 v0, v1, s[14:15] offset:2048", "s_waitcnt_vscnt null, 0x0"),
       "gfx1200": ("global_store_b32 v0, v1, s[14:15] offset:2048", "s_wait_storecnt 0x0")}
GET = {"gfx942": ("global_load_dword v10, v4, s[14:15] offset:2048", "s_waitcnt vmcnt(0)"),
       "gfx1100": ("global_load_b32 v10, v4, s[14:15] offset:2048", "s_waitcnt vmcnt(0)"),
       "gfx1200": ("global_load_b32 v10, v4, s[14:15] offset:2048", "s_wait_loadcnt 0x0")}


@pytest.mark.parametrize("target", sorted(PUT))
def test_a_barrier_waits_for_no_access_to_memory(target: str) -> None:
    """What is under way where a wave arrives is not ordered; what is in LDS is all the same."""
    wave = 64 if target == "gfx942" else 32
    facts = {"grid": [1, 1, 1], "block": [2 * wave, 1, 1], "shared": 4096, "args": [
        *({"buffer": n, "dtype": "u32", "elements": 2 * wave, "role": "in"} for n in "abc"),
        {"buffer": "out", "dtype": "u32", "elements": 1024, "role": "inout"}]}
    meet = [SIGNAL, WAIT] if target == "gfx1200" else ["s_barrier"]
    other = f"v_xor_b32_e32 v4, 0x{4 * wave:x}, v0"

    def codes(lines: list[str]) -> set[str]:
        return {r.code for r in replay(lower_gcn(parse_gcn(_in_memory(lines, target))),
                                       facts).reasons()}

    (put, landed), (get, there) = PUT[target], GET[target]
    assert codes([other, put, landed, *meet, get, there]) == set()
    assert codes([other, put, *meet, get, there]) == {"race-read"}
    assert codes([other, put, *meet, landed, get, there]) == {"race-read"}
    again = [*meet, put.replace("v1,", "v2,")]
    assert codes([other, get, there, *again]) == set()
    assert codes([other, get, *again, there]) == {"race-overwrite"}
    exchange = ["ds_write_b32 v0, v1", "s_waitcnt lgkmcnt(0)"] if target != "gfx1200" else WRITE
    read = [other, "ds_read_b32 v10, v4", "s_waitcnt lgkmcnt(0)"] if target != "gfx1200" else READ
    assert codes([put, *exchange, *meet, *read]) == set()


def test_a_block_in_place_waits_for_what_it_has_read() -> None:
    """The walk: a[t ^ 64] is read by one wave and stored to by the other."""
    load, store = "global_load_dword v10, v4, s[14:15]", "global_store_dword v0, v10, s[14:15]"
    lines = ["v_xor_b32_e32 v4, 0x100, v0", load, "s_waitcnt vmcnt(0)", "s_barrier", store,
             "s_endpgm"]
    early = [*lines[:2], "s_barrier", lines[2], *lines[4:]]
    good, bad = (_in_memory(x, "gfx942") for x in (lines, early))
    assert api.sign(good).modelled
    assert not api.sign(bad).modelled


def test_a_flat_access_may_be_one_to_lds() -> None:
    flat = ["v_mov_b32_e32 v5, 0", "v_mov_b32_e32 v4, v0", "s_nop 7", "flat_store_dword v[4:5], v1"]
    for lines, kind in (([*flat, "s_waitcnt vmcnt(0)", "s_barrier"], "warp"),
                        ([*flat, "s_waitcnt lgkmcnt(0)", "s_barrier"], "warp"),
                        ([*flat, "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_barrier"], "cta")):
        ops = lower_gcn(parse_gcn(_in_memory(lines, "gfx942"))).ops
        assert [op.attr.kind for op in ops if op.name == "barrier"] == [kind]
