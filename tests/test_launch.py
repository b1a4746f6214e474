"""Launch facts: reading, validation by parameter name, digest."""

from __future__ import annotations

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
])
def test_errors_say_what_is_wrong(data: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        Launch.from_json(data)


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
