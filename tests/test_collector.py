"""The collector of cycles is as it was after a replay, whatever happened in it."""

from __future__ import annotations

import gc

import pytest

from checker import LaunchError, api
from checker.collector import collector_paused
from tests.kernels import elementwise

LAUNCH = {"grid": [1, 1, 1], "args": [{"buffer": name, "dtype": "f32", "elements": 256}
                                      for name in "xyz"]}


def test_it_is_paused_inside_and_on_again_after() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_replay_leaves_it_on_even_where_it_fails() -> None:
    text = elementwise("add.rn.f32 %f9, %f1, %f2;")
    api.replay_kernel(text, LAUNCH)
    assert gc.isenabled()
    with pytest.raises(LaunchError):
        api.replay_kernel(text, {"grid": [1, 1, 1], "args": []})
    assert gc.isenabled()
