"""Launch facts: reading, validation by parameter name, digest."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checker.errors import LaunchError
from checker.launch import Buffer, Launch, Scalar, Scratch, TensorMapArg
from checker.lower import lower
from checker.parse import parse
from tests.replay.listing import facts, text

X = {"buffer": "x", "dtype": "f16", "elements": 8}


def launch(*args: Any, **more: Any) -> dict[str, Any]:
    return {"grid": [1], "args": list(args), **more}


def test_every_kind_of_argument_is_read() -> None:
    read = Launch.from_json(launch(
        X, {"i32": -5}, {"f32": 0.5}, None,
        {"tensormap": {**X, "shape": [2, 4], "strides": [4, 1], "box": [1, 4], "swizzle": 32}},
        {"buffer": "i", "dtype": "i32", "elements": 3, "values": [2, 0, 1], "role": "in"}))
    assert read.grid == (1, 1, 1)
    assert read.args[0] == Buffer("x", "f16", 8)
    assert read.args[1] == Scalar("i32", 0xFFFFFFFB, 4)
    assert read.args[2] == Scalar("f32", 0x3F000000, 4)
    assert read.args[3] == Scratch()
    assert isinstance(read.args[4], TensorMapArg)
    assert [b.name for b in read.buffers()] == ["x", "x", "i"]


@pytest.mark.parametrize(("data", "words"), [
    ("{", "not JSON"),
    ([], "must be an object"),
    ({"grid": [1]}, "args"),
    ({"grid": [0], "args": []}, "positive"),
    ({"grid": [1, 1, 1, 1], "args": []}, "one to three"),
    (launch({"buffer": "x", "dtype": "f17", "elements": 8}), "unknown dtype"),
    (launch({"buffer": "x", "dtype": "f16", "elements": -1}), "elements"),
    (launch({**X, "role": "sideways"}), "unknown role"),
    (launch({**X, "values": [1]}), "8 entries"),
    (launch({"i32": 1 << 40}), "does not fit"),
    (launch({"i32": 0.5}), "integer"),
    (launch({"x32": 1}), "expected one of"),
    (launch(5), "object or null"),
    (launch({"tensormap": {**X, "shape": [8], "strides": [1], "box": [4, 4]}}), "one length"),
    (launch(X, shared=-1), "shared"),
    (launch({**X, "dtype": ["f16"]}), "unknown dtype"),
    (launch({**X, "elements": 1 << 70}), "elements"),
    (launch({**X, "elements": 1 << 40, "init": {"fill": 0}}), "at most"),
    (launch({**X, "init": {"arange": 5}}), "arange"),
    (launch({**X, "init": {"modulo": [1, 2, 0]}}), "unknown init"),
    (launch({**X, "values": [1e9] * 8}), "does not fit f16"),
    (launch({**X, "dtype": "u8", "values": [256] * 8}), "256 does not fit u8"),
    (launch({**X, "dtype": "e4m3", "values": [0.5] * 8}), "must be integers"),
    (launch({**X, "alias": "y", "alias_offset": None}), "alias_offset"),
    (launch({"f32": 1e300}), "does not fit f32"),
    ({"grid": [1 << 40], "args": []}, "below"),
])
def test_errors_say_what_is_wrong(data: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        Launch.from_json(data)


ODD = (None, True, -1, 0, 1e400, float("nan"), 1e300, 2**70, 10**13, "", "x", [], [1], {}, {"a": 1},
       [[1]], 1.5, [None], [0, 1], b"x")
WHOLE = launch(
    {**X, "role": "in", "values": [1] * 8, "alias": "y", "alias_offset": 4},
    {"buffer": "y", "dtype": "i32", "elements": 4, "init": {"arange": [0, 1]}},
    {"buffer": "z", "dtype": "i32", "elements": 4, "init": {"modulo": [1, 2, 3]}},
    {"buffer": "w", "dtype": "i32", "elements": 4, "init": {"fill": 2}},
    *({kind: 1} for kind in ("i1", "i32", "u64", "f16", "bf16", "f32", "f64")), None,
    {"tensormap": {**X, "shape": [2, 4], "strides": [4, 1], "box": [1, 4], "swizzle": 32,
                   "interleave": 0, "fill_nan": False}}, block=[32], shared=16)


def _places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(
        data, list) else ()
    for key, value in inside:
        yield from _places(value, (*at, key))


@pytest.mark.parametrize("at", list(_places(WHOLE)), ids=str)
def test_nothing_but_a_launch_error_is_raised(at: tuple[Any, ...]) -> None:
    """Facts come from people and from the network: any value in any place."""
    for odd in ODD:
        data = copy.deepcopy(WHOLE)
        where = data
        for key in at[:-1]:
            where = where[key]
        where[at[-1]] = odd
        with contextlib.suppress(LaunchError):
            read = Launch.from_json(data)
            assert len(read.digest()) == 32


@pytest.mark.parametrize("other", [0, 1], ids=["itself", "a later one"])
def test_an_alias_names_a_buffer_before_it(other: int) -> None:
    program = lower(parse(text("", 32)))
    given = facts()
    buffers = [a for a in given["args"] if a and "buffer" in a]
    buffers[0]["alias"] = buffers[other]["buffer"]
    with pytest.raises(LaunchError, match="alias names no buffer before it"):
        Launch.from_json(given).validate(program)


def test_validation_names_the_parameter() -> None:
    program = lower(parse(text("", 32)))
    Launch.from_json(facts()).validate(program)
    wrong = facts()
    wrong["args"][2] = {"i64": 1}
    with pytest.raises(LaunchError, match=r"argument 2 \(.*k_param_2\)"):
        Launch.from_json(wrong).validate(program)
    wrong["args"].pop()
    with pytest.raises(LaunchError, match="3 parameters"):
        Launch.from_json(wrong).validate(program)
    with pytest.raises(LaunchError, match="block"):
        Launch.from_json({**facts(), "block": [64]}).validate(program)
    twice = facts()
    twice["args"][1] = {**twice["args"][0], "elements": 3}
    with pytest.raises(LaunchError, match="given twice"):
        Launch.from_json(twice).validate(program)


def test_digest_covers_arguments_not_knobs() -> None:
    base = Launch.from_json(launch(X, {"i32": 5}))
    assert base.digest() == Launch.from_json(launch(X, {"i32": 5}, None, block=[64])).digest()
    assert base.digest() != Launch.from_json(launch(X, {"i32": 6})).digest()
    assert base.digest() != Launch.from_json(launch({**X, "elements": 9}, {"i32": 5})).digest()


DOCUMENT = (Path(__file__).parents[1] / "docs" / "launch.md").read_text()


def test_the_documented_example_is_read() -> None:
    block = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block
    read = Launch.from_json(json.loads(block[1]))
    assert [type(arg) for arg in read.args] == [Buffer, Buffer, Scalar, Scalar, Scratch]
    assert read.block == (128, 1, 1)


def test_every_field_is_documented() -> None:
    for word in ("alias_offset", "values", "arange", "fill", "modulo", "zeros", "tensormap",
                 "shape", "strides", "box", "swizzle", "interleave", "fill_nan", "scratch",
                 "inout", "shared"):
        assert re.search(rf"\b{word}\b", DOCUMENT), word
