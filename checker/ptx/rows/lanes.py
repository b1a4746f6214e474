"""Exchange between lanes: shfl, vote, match, redux, elect (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from checker.core import Compare, Const, Source
from checker.ptx.context import Line, Refuse, row


@row("shfl")
def shfl(x: Line) -> None:
    """shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, membermask.

    The manual's pseudo code: c holds the clamp (bits 0..4) and the segment mask (bits 8..12);
    p tells whether the source lane lies in the segment, and a lane outside reads itself.
    """
    sync = x.has("sync")
    mode = x.one_of("up", "down", "bfly", "idx")
    x.only(x.type(), "b32")
    x.count(5 if sync else 4)
    first, second = x.pair(0)
    value = x.source(1, "b32")
    members: tuple[Source, ...] = ()
    if sync:
        meet(x, 4)
        mask = x.source(4, "b32")
        members = () if mask == Const(0xFFFFFFFF, 32) else (mask,)
    amount, c = _and(x, x.source(2, "b32"), 31), x.source(3, "b32")
    if mode == "idx" and c == Const(31, 32):
        source, inside = amount, None
    else:
        lane = x.special("laneid")[0]
        source, inside = _source_lane(x, mode, lane, amount, c)
        if inside is not None:
            source = x.emit("select", 32, (inside, source, lane), 32)
    if second is None:
        x.put("gather", (x.dest(first, 32),), (value, source, *members), 32)
        return
    moved = x.emit("gather", 32, (value, source, *members), 32)
    x.put("mov", (x.dest(second, 1),), (Const(1, 1) if inside is None else inside,), 1)
    x.put("mov", (x.dest(first, 32),), (moved,), 32)


def meet(x: Line, operand: int) -> None:
    """The lanes of a member mask run this together: `.sync` of shfl, vote, match, redux, elect.

    Undefined where a lane runs it that the mask does not name, or where one that it names does not
    (unless that one has exited).
    """
    x.put("members", (), (x.source(operand, "b32"),), None)


def _source_lane(x: Line, mode: str, lane: Source, amount: Source,
                 c: Source) -> tuple[Source, Source | None]:
    """The lane read and whether it is inside (None: always)."""
    clamp, segment = _and(x, c, 31), _and(x, _shift(x, c, 8), 31)
    whole = segment == Const(0, 32)  # one segment: the warp
    if mode == "bfly":
        source: Source = x.emit("ixor", 32, (lane, amount), 32)
    elif mode == "up":
        source = x.emit("isub", 32, (lane, amount), 32)
    elif mode == "down":
        source = x.emit("iadd", 32, (lane, amount), 32)
    elif whole:
        source = amount
    else:
        low = x.emit("iand", 32, (lane, segment), 32)
        rest = _both(x, amount, _not5(x, segment))
        source = x.emit("ior", 32, (low, rest), 32)
    if whole and clamp == Const(31, 32) and mode in ("bfly", "idx"):
        return source, None
    limit: Source = clamp
    if not whole:
        low = x.emit("iand", 32, (lane, segment), 32)
        rest = _both(x, clamp, _not5(x, segment))
        limit = x.emit("ior", 32, (low, rest), 32)
    cond = "ge" if mode == "up" else "le"
    inside = x.emit("icmp", 1, (source, limit), Compare(cond, "s32"))
    return source, inside


def _and(x: Line, a: Source, mask: int) -> Source:
    if isinstance(a, Const):
        return Const(a.bits & mask, 32)
    return x.emit("iand", 32, (a, Const(mask, 32)), 32)


def _both(x: Line, a: Source, b: Source) -> Source:
    if isinstance(b, Const):
        return _and(x, a, b.bits)
    return x.emit("iand", 32, (a, b), 32)


def _shift(x: Line, a: Source, amount: int) -> Source:
    if isinstance(a, Const):
        return Const(a.bits >> amount, 32)
    return x.emit("shr_u", 32, (a, Const(amount, 32)), 32)


def _not5(x: Line, segment: Source) -> Source:
    """~segmask, of which only the low five bits matter."""
    if isinstance(segment, Const):
        return Const(~segment.bits & 31, 32)
    return x.emit("ixor", 32, (segment, Const(31, 32)), 32)


def _members(x: Line, ballot: int, operand: int | None) -> Source:
    """A ballot restricted to the member mask."""
    if operand is None:
        return ballot
    mask = x.source(operand, "b32")
    if mask == Const(0xFFFFFFFF, 32):
        return ballot
    return x.emit("iand", 32, (ballot, mask), 32)


@row("vote")
def vote(x: Line) -> None:
    """vote{.sync}.{all,any,uni}.pred p, {!}a{, mask}; vote{.sync}.ballot.b32 d, {!}a{, mask}."""
    sync = x.has("sync")
    x.count(3 if sync else 2)
    mode = x.one_of("all", "any", "uni", "ballot")
    mask = 2 if sync else None
    if sync:
        meet(x, 2)
    value = x.predicate(1)
    if mode == "ballot":
        x.only(x.type(), "b32")
        found = _members(x, x.emit("ballot", 32, (value,), 32), mask)
        x.put("mov", (x.dest(0, 32),), (found,), 32)
        return
    x.only(x.type(), "pred")
    yes = no = None
    if mode in ("any", "uni"):
        yes = _members(x, x.emit("ballot", 32, (value,), 32), mask)
    if mode in ("all", "uni"):
        inverse = x.emit("pnot", 1, (value,), None)
        no = _members(x, x.emit("ballot", 32, (inverse,), 32), mask)
    zero = Const(0, 32)
    if mode == "any":
        assert yes is not None
        x.put("icmp", (x.dest(0, 1),), (yes, zero), Compare("ne", "b32"))
    elif mode == "all":
        assert no is not None
        x.put("icmp", (x.dest(0, 1),), (no, zero), Compare("eq", "b32"))
    else:
        assert yes is not None
        assert no is not None
        none = x.emit("icmp", 1, (yes, zero), Compare("eq", "b32"))
        full = x.emit("icmp", 1, (no, zero), Compare("eq", "b32"))
        x.put("por", (x.dest(0, 1),), (none, full), None)


@row("match")
def match(x: Line) -> None:
    """match.any.sync.type d, a, mask; match.all.sync.type d{|p}, a, mask."""
    x.count(3)
    if not x.has("sync"):
        raise Refuse("match without .sync")
    mode = x.one_of("any", "all")
    type_ = x.type()
    x.only(type_, "b32", "b64")
    width = int(type_[1:])
    meet(x, 2)
    src = (x.source(1, type_), x.source(2, "b32"))
    first, second = x.pair(0)
    if mode == "any":
        if second is not None:
            raise Refuse("match.any has one result")
        x.put("match_any", (x.dest(first, 32),), src, width)
        return
    found = x.emit("match_all", 32, src, width)
    if second is not None:
        x.put("icmp", (x.dest(second, 1),), (found, Const(0, 32)), Compare("ne", "b32"))
    x.put("mov", (x.dest(first, 32),), (found,), 32)


@row("redux")
def redux(x: Line) -> None:
    """redux.sync.op.{u32,s32,b32} d, a, mask; redux.sync.{min,max}{.abs}{.NaN}.f32."""
    x.count(3)
    if not x.has("sync"):
        raise Refuse("redux without .sync")
    op = x.one_of("add", "min", "max", "and", "or", "xor")
    type_ = x.type()
    if type_ == "f32":
        if op not in ("min", "max"):
            raise Refuse("redux form")
        op += "".join("." + m for m in ("abs", "NaN") if x.has(m))
    elif (type_ == "b32") != (op in ("and", "or", "xor")):
        raise Refuse("redux form")
    x.only(type_, "u32", "s32", "b32", "f32")
    meet(x, 2)
    x.put("redux", (x.dest(0, 32),), (x.source(1, type_), x.source(2, "b32")), (op, type_))


@row("elect")
def elect(x: Line) -> None:
    """elect.sync d|p, mask: p is set in one lane of the mask, d is its number."""
    x.count(2)
    if not x.has("sync"):
        raise Refuse("elect without .sync")
    first, second = x.pair(0)
    if second is None:
        raise Refuse("elect has two results")
    meet(x, 1)
    x.put("elect", (x.dest(first, 32), x.dest(second, 1)), (x.source(1, "b32"),), None)


@row("activemask")
def activemask(x: Line) -> None:
    """activemask.b32 d."""
    x.count(1)
    x.only(x.type(), "b32")
    x.put("activemask", (x.dest(0, 32),), (), 32)
