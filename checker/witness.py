"""Witness search: concrete inputs on which two kernels' replayed bytes differ.

In: two programs, their launches. Out: the smallest `Witness` found, or None. Only bytes of
bit-accurate runs without findings count; a NaN's payload does not. Finding nothing proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.approach import NARROW, approach, raised
from checker.core import Program
from checker.draws import FORMATS, RAW, Bits, canonical_nans, draw, words
from checker.launch import Buffer, Launch
from checker.replay import Output, ReplayResult, first_difference, replay
from checker.replay.hashing import TAG
from checker.results import Witness

__all__ = ["DRAWS", "differing", "draw_inputs", "find_witness", "near_boundaries"]

#: what is tried, in order: kinds that reveal order first
DRAWS: tuple[tuple[str, int], ...] = (
    ("normal", 1), ("cancel", 1), ("spikes", 1), ("wide", 1), ("tiny", 1), ("special", 1),
    ("edge", 1), ("huge", 1), ("sparse", 1), *(("planted", n) for n in range(1, 13)),
    *(("corner", n) for n in range(1, 9)),
    ("cancel", 2), ("spikes", 2), ("wide", 2),
    ("normal", 2), ("tiny", 2), ("huge", 2), ("special", 2), ("cancel", 3), ("spikes", 3),
    ("wide", 3), ("spikes", 4), ("cancel", 4), ("normal", 3), ("edge", 2), ("huge", 3),
    ("tiny", 3), ("special", 3),
    ("zeros", 1), ("zeros", 2), *(("probe", n) for n in range(1, 17)), ("span", 1), ("span", 2),
    *(("signs", n) for n in range(8)), *(("zeros", n) for n in range(3, 11)),
    *(("mixed", n) for n in range(1, 16)), ("level", 1), ("level", 2), ("level", 3),
    *((kind, seed) for seed in range(5, 9) for kind in ("spikes", "wide", "cancel")),
)

#: how many inputs next to boundaries are tried: some kernels take seconds for each
_MOST = 160

#: what `mixed` gives to buffers, each its own: the digits of the seed
_MIXED = ("wide", "faint", "huge", "span")


def find_witness(program_a: Program, program_b: Program, launch_a: Launch, launch_b: Launch,
                 *, draws: tuple[tuple[str, int], ...] = DRAWS) -> Witness | None:
    """Return the first draw's smallest difference, by buffer and element.

    Where no draw shows one, inputs next to boundaries of narrow outputs are tried: the witness then
    lists what differs from the draw.
    """
    for kind, seed in draws:
        inputs = draw_inputs(launch_a, kind, seed)
        run_a = replay(program_a, launch_a, domain="bytes", inputs=inputs)
        if not _counts(run_a):
            return None
        run_b = replay(program_b, launch_b, domain="bytes", inputs=inputs)
        if not _counts(run_b):
            return None
        for buffer, dtype, element, bits_a, bits_b in differing(run_a, run_b):
            return Witness(seed, kind, buffer, element, bits_a, bits_b, dtype)
    differs = first_difference(replay(program_a, launch_a), replay(program_b, launch_b))
    for seed, inputs, run_a in near_boundaries(
            program_a, launch_a, None if differs is None else (differs.buffer, differs.element)):
        run_b = replay(program_b, launch_b, domain="bytes", inputs=inputs)
        if not _counts(run_b):
            return None
        for buffer, dtype, element, bits_a, bits_b in differing(run_a, run_b):
            moved = _moved(inputs, draw_inputs(launch_a, "normal", seed))
            return Witness(seed, "normal", buffer, element, bits_a, bits_b, dtype, moved)
    return None


def near_boundaries(program: Program, launch: Launch, watched: tuple[str, int] | None = None
                    ) -> Iterator[tuple[int, dict[str, Bits], ReplayResult]]:
    """Yield (seed of the everyday values, inputs, what the kernel makes of them): see `approach`.

    watched: a buffer and an element of which it is known that the trees differ there. Nothing where
    no output is narrow; at most `_MOST` inputs.
    """
    narrow = {b.name for b in launch.buffers() if b.role != "in" and b.dtype in NARROW}
    floats = _floats(_free(launch))

    def run(inputs: Mapping[str, Bits]) -> ReplayResult:
        return replay(program, launch, domain="bytes", inputs=inputs)

    def tried() -> Iterator[tuple[int, dict[str, Bits], ReplayResult]]:
        for seed, buffer in product((1, 2, 3, 4), floats if watched else ()):
            if watched is not None and watched[0] in narrow:
                drawn = draw_inputs(launch, "normal", seed)
                for inputs, result in raised(run, drawn, buffer, *watched):
                    yield seed, inputs, result
        for seed, buffer in product((1, 2), floats if narrow else ()):
            axis = _facts(launch, buffer)["draw"].get("axis", (1, buffer.elements, 1))
            drawn = draw_inputs(launch, "normal", seed)
            for inputs, result in approach(run, drawn, buffer, axis, seed):
                yield seed, inputs, result

    yield from takewhile(lambda found: _counts(found[2]), islice(tried(), _MOST))


def _moved(inputs: dict[str, Bits], drawn: dict[str, Bits]) -> dict[str, dict[str, int]]:
    """The bits of the elements that differ from what was drawn, by buffer and element."""
    return {name: {str(i): int(bits[i]) for i in np.flatnonzero(bits != drawn[name])}
            for name, bits in inputs.items() if (bits != drawn[name]).any()}


def draw_inputs(launch: Launch, kind: str, seed: int) -> dict[str, Bits]:
    """Return the bits of every buffer whose contents the launch facts leave open."""
    free = _free(launch)
    if kind == "planted":
        return _planted(launch, free, seed)
    if kind == "corner":
        return _planted(launch, free, seed, corner=True)
    if kind == "probe":
        return _probe(launch, free, seed)
    if kind == "zeros":
        return _zeros(launch, free, seed) if seed < 3 else _signed(launch, free, seed)
    if kind == "signs":
        return _faint(launch, free, seed)
    if kind == "mixed":
        return {b.name: draw(_MIXED[seed // len(_MIXED)**i % len(_MIXED)], seed, _facts(launch, b))
                for i, b in enumerate(free)}
    return {b.name: draw(kind, seed, _facts(launch, b)) for b in free}


def _free(launch: Launch) -> list[Buffer]:
    return [b for b in launch.buffers()
            if b.values is None and not b.alias and (b.dtype in FORMATS or b.dtype in RAW)]


def _floats(free: Sequence[Buffer]) -> list[Buffer]:
    """Inputs that can hold an infinity."""
    return [b for b in free if b.dtype in FORMATS and b.dtype != "e4m3" and b.role != "out"]


def _zeros(launch: Launch, free: Sequence[Buffer], seed: int) -> dict[str, Bits]:
    """-0 everywhere; from the second seed on one element in eight is +0."""
    out = {b.name: draw("normal", seed, _facts(launch, b)) for b in free}
    for b in free:
        if b.dtype in FORMATS and not _facts(launch, b)["draw"].get("positive"):
            ebits, mbits, _ = FORMATS[b.dtype]
            minus = seed == 1 or words(f"zeros/{seed}/{b.name}", b.elements) % np.uint64(8) != 0
            out[b.name] = np.where(minus, out[b.name].dtype.type(1 << (ebits + mbits)),
                                   out[b.name].dtype.type(0))
            out[b.name] = np.broadcast_to(out[b.name], (b.elements,)).copy()
    return out


def _signed(launch: Launch, free: Sequence[Buffer], seed: int) -> dict[str, Bits]:
    """Each buffer either zeros of one sign or everyday values of one sign: whole sums of zeros."""
    out = {b.name: draw("normal", seed, _facts(launch, b)) for b in free}
    for b in free:
        if b.dtype in FORMATS and not _facts(launch, b)["draw"].get("positive"):
            ebits, mbits, _ = FORMATS[b.dtype]
            sign, zero = _turn(((0, 0), (0, 1), (1, 0), (1, 1)), f"signed/{seed}/{b.name}")
            one = out[b.name].dtype.type
            kept = out[b.name] & one(0 if zero else (1 << (ebits + mbits)) - 1)
            out[b.name] = kept | one(sign << (ebits + mbits))
    return out


def _faint(launch: Launch, free: Sequence[Buffer], seed: int) -> dict[str, Bits]:
    """The smallest values, those of a buffer of one sign (a digit of the seed), a few zeros.

    Sums whose terms all underflow to zeros of one sign; values that ought to be positive are.
    """
    out = {b.name: draw("normal", seed, _facts(launch, b)) for b in free}
    for i, b in enumerate(b for b in free if b.dtype in FORMATS):
        facts = _facts(launch, b)
        positive = facts["draw"].get("positive")
        bits = draw("faint", seed, {**facts, "draw": {}})
        ebits, mbits, _ = FORMATS[b.dtype]
        one = bits.dtype.type
        zero = (words(f"signs/{seed}/{b.name}", b.elements) % np.uint64(64) == 0) & (not positive)
        sign = 0 if positive else seed >> i & 1
        kept = np.where(zero, one(0), bits & one((1 << (ebits + mbits)) - 1))
        out[b.name] = kept | one(sign << (ebits + mbits))
    return out


def _turn(choices: Sequence[Any], stream: str) -> Any:
    return choices[int(words(stream, 1)[0] % np.uint64(len(choices)))]


def _probe(launch: Launch, free: Sequence[Buffer], seed: int) -> dict[str, Bits]:
    """Everyday values with one infinity in each row, each row's elsewhere: is it lost in the end?

    Rows are those of the drawing hints; seeds take the buffers in turn and go on along the row.
    """
    out = {b.name: draw("normal", seed, _facts(launch, b)) for b in free}
    floats = _floats(free)
    if not floats:
        return out
    turn, at = divmod(seed - 1, len(floats))
    chosen = floats[at]
    outer, reduced, inner = _facts(launch, chosen)["draw"].get("axis", (1, chosen.elements, 1))
    rows = np.arange(outer * inner)
    column = (turn * len(rows) + rows) % reduced
    where = (rows // inner * reduced + column) * inner + rows % inner
    ebits, mbits, _ = FORMATS[chosen.dtype]
    bits = np.uint64(((1 << ebits) - 1) << mbits) | (words(f"probe/{seed}", len(rows))
                                                   % np.uint64(2)) << np.uint64(ebits + mbits)
    out[chosen.name][where] = bits.astype(out[chosen.name].dtype)
    return out


def _planted(launch: Launch, free: Sequence[Buffer], seed: int, corner: bool = False
             ) -> dict[str, Bits]:
    """Everyday values with one infinity or NaN in one buffer: which outputs does it reach?

    Seeds take the buffers in turn: with infinity, with infinity among values that are all positive
    (so that no other term turns it into a NaN), then both with NaN. corner: an infinity at the
    first element among positive values, where no tile has masked anything before it.
    """
    out = {b.name: draw("normal", seed, _facts(launch, b)) for b in free}
    floats = _floats(free)
    if not floats:
        return out
    turn, at = divmod(seed - 1, len(floats))
    for b in floats:
        ebits, mbits, _ = FORMATS[b.dtype]
        if turn % 2 or corner:
            out[b.name] &= out[b.name].dtype.type((1 << (ebits + mbits)) - 1)
    chosen = floats[at]
    ebits, mbits, _ = FORMATS[chosen.dtype]
    where = 0 if corner else int(words(f"planted/{seed}", 1)[0] % np.uint64(chosen.elements))
    bits = ((1 << ebits) - 1) << mbits | (0 if corner else turn // 2 % 2) << (mbits - 1)
    out[chosen.name][where] = bits
    return out


def _facts(launch: Launch, buffer: Buffer) -> dict[str, Any]:
    """A buffer's launch facts as `draws.draw` reads them, with its drawing hints if it has any."""
    for arg in launch.source.get("args", ()):
        if isinstance(arg, dict) and arg.get("buffer") == buffer.name and "draw" in arg:
            hints = arg["draw"]
            break
    else:
        hints = {"axis": (1, buffer.elements, 1), "mirror": -1}
    return {"buffer": buffer.name, "dtype": buffer.dtype, "elements": buffer.elements,
            "draw": hints}


def _counts(run: ReplayResult) -> bool:
    return run.usable and not run.inaccurate


def differing(a: ReplayResult, b: ReplayResult) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield (buffer, dtype, element, bits of a, bits of b) where two byte maps differ."""
    for name in sorted(set(a.outputs) & set(b.outputs)):
        one, two = a.outputs[name], b.outputs[name]
        both = _known(one) & _known(two)
        left, right = _bits(one.words, one.dtype), _bits(two.words, two.dtype)
        for element in np.nonzero(both & (left != right))[0]:
            yield name, one.dtype, int(element), int(left[element]), int(right[element])


def _known(output: Output) -> NDArray[np.bool_]:
    """Elements that were written and whose bits came out concrete, not as a hash."""
    known: NDArray[np.bool_] = output.written & (output.words[0] == TAG)
    return known


def _bits(words: NDArray[np.uint64], dtype: str) -> Bits:
    raw = RAW.get(dtype)
    return words[1] if raw is None else canonical_nans(dtype, words[1].astype(raw))
