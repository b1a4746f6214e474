"""One node's hash from its children's, for many pairs of a lane and a context at once.

In: a node and a scope (which pairs, and how to ask for a child). Out: what the node needs of its
children, then its hash. The formulas are those of `checker.tree.nodes`; here are the operators that
look at other lanes, the polynomials under pivots, and the conditions that are known to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, greatest, is_number, some
from checker.tree.hashing import Hash, finish, hash_ints, key, mix, ordered
from checker.tree.logic import conjuncts
from checker.tree.nodes import (
    GROUPED,
    Node,
    choose,
    hash_members,
    hash_node,
    hash_poly_tag,
    hash_select,
    hash_step,
    join_group,
    member,
    parameter_name,
)
from checker.tree.poly import Poly, coef_add, coef_mul, is_zero, join, settle
from checker.tree.values import Values, by_symbols, divisible, low_bits

if TYPE_CHECKING:
    from checker.tree.rewrite import Facts, Pivot, Scope

__all__ = [
    "Conflict", "Terms", "bounds_of", "comparison_terms", "compute", "decided", "groups_of",
    "moves_with", "needs", "options", "parts", "shows_sharing", "split", "terms", "terms_hash",
]

MOST_APART = 1 << 24  # of an index's literal, in elements
MAX_SHARED = 4  # compilers reason about multiples of 16 at most
_SHIFT = "shr_s.32"
FEW = 1024  # pairs for which the terms of all polynomials are kept
Terms = dict[tuple[Node, ...], tuple[Any, int]]  # monomial -> numerator (int or array), denominator


class Conflict(Exception):
    """An address that these pivots do not fit."""


# --- asking -----------------------------------------------------------------------------------


def needs(node: Node, scope: Scope) -> None:
    """Ask for everything that a node's hash is made of."""
    if node.op == "gather":
        assert node.table is not None
        scope.behind(node.table).need(node.args[0])
    elif node.op == "mux":
        for i, _at, inner in options(node, scope):
            inner.need(node.args[i])
    elif node.op == "krow":
        for i, _k, _j, inner in parts(node, scope):
            inner.need(node.args[i])
    elif node.op == "fold":
        node.extra.needs(scope)
    else:
        if node.op == "select" and scope.informed:
            _need_members(node.args[0], scope)
        for kid in node.args:
            scope.need(kid)
        if node.poly is not None:
            scope.need_poly(node.poly)
        for part in _bounds_apart(node, scope)[1]:
            scope.need(part)


def options(node: Node, scope: Scope) -> Iterator[tuple[int, Any, Scope]]:
    """Yield the options of a mux that some pair takes: number, which pairs, their scope."""
    assert node.table is not None
    choice = node.table[scope.lane]
    for i in range(len(node.args)):
        at, = (choice == i).nonzero()
        if len(at):
            yield i, at, scope.shift(scope.lane[at], at)


def parts(node: Node, scope: Scope) -> Iterator[tuple[int, Any, Any, Scope]]:
    """Yield the parts of a row over k: number, places in [k][pair], pairs, the scope behind them.
    """
    assert node.table is not None
    looked = node.table.take(scope.lane, axis=1)
    part, lane = looked[..., 0].ravel(), looked[..., 1].ravel()
    for i in range(len(node.args)):
        at, = (part == i).nonzero()
        if len(at):
            pair = at % len(scope.lane)
            yield i, at, pair, scope.shift(lane.take(at), pair)


def _need_members(p: Node, scope: Scope) -> None:
    if p.op in ("and", "or", "not"):
        for q in p.args:
            scope.need(q)
            _need_members(q, scope)
    elif p.poly is not None:
        scope.need_poly(p.poly)


# --- hashes -----------------------------------------------------------------------------------


def compute(node: Node, scope: Scope) -> tuple[Hash, Hash | None]:
    """Return a node's hash for each pair, and the member sum of a group."""
    op = node.op
    if op == "gather":
        assert node.table is not None
        return scope.behind(node.table).of(node.args[0]), None
    if op == "mux":
        return choose(len(scope.lane), [(at, inner.of(node.args[i]))
                                        for i, at, inner in options(node, scope)]), None
    if op == "krow":
        assert node.table is not None
        count = len(node.table) * len(scope.lane)
        row = choose(count, [(at, inner.of(node.args[i]))
                             for i, at, _pair, inner in parts(node, scope)])
        return finish(row).reshape(2, len(node.table), len(scope.lane)), None
    if op == "mma":
        total = scope.kept(node)
        if total is None:
            total = hash_step(node, scope.of(node.args[1]), scope.of(node.args[2]))
            scope.keep(node, total)
        return mix(total, scope.of(node.args[0])), None
    if op == "lanes":
        assert node.table is not None
        return np.where(node.table[scope.lane], key("true"), key("false")), None
    if op == "fold":
        return node.extra.value(scope), None
    if op == "load" and node.poly is not None:
        place = scope.poly_hash(node.poly, address=True)
        return ordered(mix(key(f"load|{node.attr}|{node.width}"), place), []), None
    if op in GROUPED:
        return join_group(node, [(scope.of(a), _group_sum(a, node.op, node.attr, scope))
                                 for a in node.args])
    if op == "select" and scope.informed:
        p, a, b = node.args
        return hash_select(node.width, _left(p, scope), scope.of(a), scope.of(b)), None
    if op == "ge0":
        assert node.poly is not None
        how, apart = _bounds_apart(node, scope)
        if apart:
            return hash_members(how, [scope.of(p) for p in apart]), None
        found = comparison_terms(scope, node.poly)
        h = mix(key(f"ge0||{node.width}"), terms_hash(scope, found, node.poly.width))
        return _certain(node.poly, found, h), None
    groups = groups_of(node, scope) if op == "iop" else None
    if groups is not None:
        return _floor_hash(scope, *groups), None
    return hash_node(node, scope)


def _bounds_apart(node: Node, scope: Scope) -> tuple[str, list[Node]]:
    """Return what a comparison with the least (or largest) of some bounds is made of.

    It is one with each of them (or with any).
    """
    return scope.rewriter.bounds_apart(node) if node.op == "ge0" else ("", [])


def groups_of(node: Node, scope: Scope) -> tuple[Node, Any, int] | None:
    """Return c, r, k of a shift floor((c + r) / 2**k), c being a loop's counter as it is named.

    Where the nodes' counter is a part of a finer one it is floor(c / 2**t) for that: this is
    floor((c + r * 2**t) / 2**(k + t)).
    """
    if node.attr != _SHIFT:
        return None
    if node.serial < 0:
        made: tuple[Node, Any, int] = node.extra
        return made
    number, by = (a.poly for a in node.args)
    if number is None or by is None or not by.is_const or isinstance(by.const, np.ndarray):
        return None
    counters = [m[0] for m, c in number.terms.items() if len(m) == 1 and is_number(c, 1)]
    if len(counters) != 1 or counters[0].op != "kappa" \
            or len(number.terms) - (() in number.terms) != 1:
        return None
    pivot = scope.region.pivot_of(counters[0])
    scale = pivot.scale if pivot is not None else 1
    if scale & (scale - 1) or counters[0] in scope.rewriter.pivots:
        return None
    literal = number.const
    if isinstance(literal, np.ndarray):
        literal = settle(literal[scope.lane], number.width)
    return (counters[0], coef_mul(literal, scale, number.width),
            by.const + scale.bit_length() - 1)


def _floor_hash(scope: Scope, counter: Node, literal: Any, k: int) -> Hash:
    """Return the hash of the shift floor((counter + literal) / 2**k), the counter as it is named.
    """
    number: Terms = {(counter,): (1, 1), (): (literal, 1)}
    by: Terms = {(): (k, 1)}
    return ordered(key(f"iop|{_SHIFT}|32"), [
        mix(key("int||32"), terms_hash(scope, found, 32)) for found in (number, by)])


def _certain(poly: Poly, found: Terms, h: Hash) -> Hash:
    """Return the hash of `poly >= 0`; the literal true or false where coordinates decide it.

    A coordinate is never negative, and neither is the block's part of it: `128 * block >= 0`
    stands as `y - offset >= 0` here, which is true because y is at least its offset in the tile.
    """
    bounds = _bounds(found)
    if bounds is None:
        return h
    low, high = bounds
    sign = _sign_of_starts(poly) if len(found) - (() in found) == 1 and all(
        a.op == "y" for m in found for a in m) else 0
    yes, no = (low >= 0) | (sign > 0), (high < 0) | (sign < 0)
    if not bool(yes.any() or no.any()):
        return h
    return np.where(yes, key("true"), np.where(no, key("false"), h))


def _bounds(found: Terms) -> tuple[Any, Any] | None:
    """Return bounds of an integer that a sum of terms is, for each pair.

    None where a symbol has none. The integer is at most what the fractions add up to at most.
    """
    low: Any = np.zeros(1, dtype=np.int64)
    high: Any = np.zeros(1, dtype=np.int64)
    common, total = math.lcm(*(den for _c, den in found.values())), 0
    for mono, (c, den) in found.items():
        a, b = 1, 1
        for atom in mono:
            if atom.low is None or atom.high is None or (len(mono) > 1 and atom.low < 0):
                return None
            a, b = a * atom.low, b * atom.high
        times = common // den
        size = greatest(np.abs(c)) if isinstance(c, np.ndarray) else abs(c)
        total += size * times * max(abs(a), abs(b))
        if total >= 1 << 62:
            return None
        ends = (c * (times * a), c * (times * b))
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return low // common, high // common


def _sign_of_starts(poly: Poly) -> int:
    """Return 1 where a widened sum of block indices plus a literal is >= 0 unless it wraps.

    -1: where it is negative. The same in every lane: an element's own place does not count here.
    """
    (widened, c), = ((m, c) for m, c in poly.terms.items() if m) if len(
        poly.terms) - (() in poly.terms) == 1 else (((), 0),)
    if len(widened) != 1 or isinstance(c, np.ndarray) or isinstance(poly.const, np.ndarray) \
            or widened[0].op != "sext" or widened[0].poly is None:
        return 0
    for mono, inside in widened[0].poly.terms.items():
        if isinstance(inside, np.ndarray) or inside < 0 or any(
                a.low is None or a.low < 0 for a in mono):
            return 0
    if c > 0:
        return int(poly.const >= 0)
    return -int(poly.const < 0)


def _group_sum(node: Node, op: str, attr: str, scope: Scope) -> Hash:
    """Return the sum over the members of an order-free group that a node stands for."""
    if node.op == op and node.attr == attr:
        aux = scope.aux_of(node)
        if aux is not None:
            return aux
    if node.op == "gather" and node.table is not None:
        return _group_sum(node.args[0], op, attr, scope.behind(node.table))
    if node.op == "mux" and node.table is not None:
        return choose(len(scope.lane), [(at, _group_sum(node.args[i], op, attr, inner))
                                        for i, at, inner in options(node, scope)])
    return member(op, attr, scope.of(node))


# --- what is known ----------------------------------------------------------------------------


def _left(p: Node, scope: Scope) -> Hash:
    """Return the hash of a condition without what is known to hold."""
    if not scope.facts():
        return scope.of(p)
    kept = scope.kept_for(p)
    if kept is None:
        return _left_of(p, scope)
    h: Hash | None = kept.get(("left", p))
    if h is None:
        h = kept["left", p] = _left_of(p, scope)
    return h


def _left_of(p: Node, scope: Scope) -> Hash:
    if p.op in ("and", "or"):
        return hash_members(p.op, [_left(q, scope) for q in p.args])
    side = decided(p, scope)
    h = scope.of(p)
    if not some(side):
        return h
    return np.where(side == 1, key("true"), np.where(side == 2, key("false"), h))


def decided(p: Node, scope: Scope) -> Any:
    """Return for each pair 1 where the known conditions imply p, 2 where they refute it, else 0."""
    known = scope.facts()
    if not known:
        return np.zeros(1, dtype=np.int64)
    kept = scope.kept_for(p)
    if kept is None:
        return _decided(p, scope, known)
    side = kept.get(("side", p))
    if side is None:
        side = kept["side", p] = _decided(p, scope, known)
    return side


def _decided(p: Node, scope: Scope, known: list[tuple[Facts, Any]]) -> Any:
    if p.op == "not":
        side = decided(p.args[0], scope)
        return np.where(side == 1, 2, np.where(side == 2, 1, 0))
    if p.op in ("and", "or"):
        sides = [decided(q, scope) for q in p.args]
        strong, weak = (2, 1) if p.op == "and" else (1, 2)
        any_strong = np.logical_or.reduce(np.broadcast_arrays(*[s == strong for s in sides]))
        all_weak = np.logical_and.reduce(np.broadcast_arrays(*[s == weak for s in sides]))
        return np.where(any_strong, strong, np.where(all_weak, weak, 0))
    h = scope.of(p)
    comparison = split(scope, p.poly) if p.op == "ge0" and p.poly is not None else None
    opposite = None if comparison is not None else ordered(key("not||1"), [h])
    out: Any = np.zeros(1, dtype=np.int64)
    for facts, number in known:
        there = number >= 0
        told = facts.h.take(number, axis=1)
        same = (told == h).all(axis=0)
        refuted = np.zeros(1, dtype=bool)
        if comparison is not None:
            plus, minus, c = comparison
            ge, own = facts.at_least[number], facts.c[number]
            symbols = facts.symbols.take(number, axis=1)
            same = same | (ge & (symbols == plus).all(axis=0) & (c >= own))
            refuted = ge & (symbols == minus).all(axis=0) & (own + c < 0)
        elif opposite is not None:
            refuted = (told == opposite).all(axis=0)
        out = np.where(there & same, 1, np.where(there & refuted, 2, out))
    return out


def split(scope: Scope, poly: Poly) -> tuple[Hash, Hash, Any] | None:
    """Return the hash sums of an exact integer's symbols, of their negation, and its literal.

    None where the literal is no integer below 2**62.
    """
    plus: Hash = np.zeros((2, 1), dtype=np.uint64)
    minus: Hash = np.zeros((2, 1), dtype=np.uint64)
    literal: Any = 0
    for mono, (c, den) in comparison_terms(scope, poly).items():
        if mono:
            tag = _mono_tag(scope, mono)
            plus = plus + _hash_fraction(tag, c, den, poly.width)
            minus = minus + _hash_fraction(tag, coef_mul(c, -1, 0), den, poly.width)
            continue
        if den != 1 or (not isinstance(c, np.ndarray) and abs(c) >= 1 << 62):
            return None
        literal = c
    return plus, minus, np.atleast_1d(np.asarray(literal, dtype=np.int64))


def comparison_terms(scope: Scope, poly: Poly) -> Terms:
    """Return the terms of `poly >= 0`, where a group of elements shares one comparison.

    `v < n` says the same as `w < n` where v and w lie between the same two multiples of 2**k and n
    is a multiple of 2**k. A compiler that knows n to be one tests one element for a whole group;
    which n that is the kernel itself shows (`Forest.shared`), and it becomes a premise. Then v
    becomes the output's own coordinate y where y is in the group, the group's first element else.
    """
    found = _in_elements(scope, poly, terms(scope, poly))
    group = own_group(scope, found)
    if group is not None:
        size, back, least = group
        name, sure = _multiple(size)  # up to a multiple that needs no premise
        known = least > 0 if name in scope.rewriter.forest.shared else (least > 0) & (least <= sure)
        if not some(known):
            return found
        moved = int(np.where(known & (back != 0), least, 0).max())
        return _put_literal(scope, found, name, np.where(known, -1, _literal(found)),
                            max(moved - sure, 0))
    if not scope.rewriter.forest.shared:
        return found
    names = [parameter_name(m[0]) for m, (f, d) in found.items()
             if len(m) == 1 and d == 1 and is_number(f, 1)]
    bound = next((n for n in names if n in scope.rewriter.forest.shared), None)
    step = 1 << MAX_SHARED
    for mono, (factor, den) in found.items():
        if mono and not (len(mono) == 1 and parameter_name(mono[0]) == bound):
            if den != 1 or isinstance(factor, np.ndarray) or not _whole(mono):
                return found
            step = math.gcd(step, factor << _zeros(mono))
    if bound is None or step == 1 or found.get((), (0, 1))[1] != 1:
        return found
    tested = -1 - _literal(found)
    first = tested // step * step
    if every(first == tested):
        return found
    return _put_literal(scope, found, bound, -1 - first, step.bit_length() - 1)


def _in_elements(scope: Scope, poly: Poly, found: Terms) -> Terms:
    """Return the terms of `poly >= 0` in units of the one coordinate y that stands in it.

    times * poly = +-y + m + c is a multiple of `times`: the literal may be the next one up that
    leaves no trace of where in its row the element lies. Where the block index alone decides and
    m is a sum of multiples of the tile, y - offset + c + m >= 0 says the same as y + tile *
    floor(c / tile) + m >= 0: tiles that divide the step of a loop drop out. What a lane's own
    place decides, too, is told of y as it stands.
    """
    held = [m for m in found if any(a in scope.rewriter.coordinates for a in m)]
    factor, times = found[held[0]] if len(held) == 1 and len(held[0]) == 1 else (0, 1)
    if isinstance(factor, np.ndarray) or factor == 0 or times % factor:
        return found
    factor, times = (1 if factor > 0 else -1), times // abs(factor)
    pivot = scope.rewriter.coordinates[held[0][0]]
    out: Terms = {}
    for mono, (c, den) in found.items():
        size = greatest(np.abs(c)) if isinstance(c, np.ndarray) else abs(c)
        whole = 1 if mono in ((), held[0]) else times  # a counter may stand for a fraction of one
        if size * times >= 1 << 61 or np.any(c * times % (den * whole)):
            return found
        out[mono] = (c * times // den, 1)
    literal = out.pop((), (0, 1))[0]
    tile, offset = pivot.scale, np.asarray(scope.rewriter.offset(pivot, scope), dtype=np.int64)
    if isinstance(poly.const, np.ndarray) or pivot.others \
            or some((offset < 0) | (offset >= tile)) or any(
                isinstance(c, np.ndarray) or c % tile or not _whole(m)
                for m, (c, _den) in out.items() if m != held[0]):
        tile, offset = times, np.zeros(1, dtype=np.int64)
        if factor > 0:
            literal = literal + tile - 1
    if tile == 1:
        return found
    start = tile * ((literal + factor * offset) // tile) + (tile - 1 if factor < 0 else 0)
    start = settle(np.atleast_1d(start), 0)
    if not is_zero(start):
        out[()] = (start, 1)
    return out


def _whole(mono: tuple[Node, ...]) -> bool:
    """Tell whether a product is an integer whose multiples of a step are what they seem."""
    return all(a.op in ("kappa", "y", "sreg", "trips", "sext", "zext", "param") for a in mono)


def _zeros(mono: tuple[Node, ...]) -> int:
    """Return how many low bits of a widened sum are zero for certain, whatever stands beside it."""
    return max((min(a.poly.tz(), MAX_SHARED) for a in mono
                if a.op in ("sext", "zext") and a.poly is not None), default=0)


def _literal(found: Terms) -> Any:
    return np.atleast_1d(np.asarray(found.get((), (0, 1))[0], dtype=np.int64))


def _put_literal(scope: Scope, found: Terms, size: str, literal: Any, k: int) -> Terms:
    if k:
        scope.rewriter.forest.premises.add(f"divisible:{size}%{1 << k}")
    literal = settle(np.ascontiguousarray(literal), 0)
    out = {m: f for m, f in found.items() if m}
    if not is_zero(literal):
        out[()] = (literal, 1)
    return out


def own_group(scope: Scope, found: Terms) -> tuple[str, Any, Any] | None:
    """Compare a coordinate with a parameter: n - 1 - v >= 0 for v = y + literal, else None.

    Returns the parameter (`4*arg2`: a multiple of it), y - v for each pair, and the least k such
    that v and y lie between the same two multiples of 2**k (0: none that the tile is a multiple of,
    up to 16 times what the parameter is multiplied by: rows that follow each other are one
    coordinate).
    """
    if len(found) - (() in found) != 2 or found.get((), (0, 1))[1] != 1:
        return None
    pivot: Pivot | None = None
    size: str | None = None
    for mono, (factor, den) in found.items():
        if not mono:
            continue
        if len(mono) != 1 or den != 1:
            return None
        if is_number(factor, -1) and pivot is None:
            pivot = scope.rewriter.coordinates.get(mono[0])
        elif size is None:
            size = _size_name(mono[0], factor)
    if pivot is None or size is None:
        return None
    whole = pivot.scale
    for _m, factor in pivot.others:
        whole = math.gcd(whole, factor)
    offset = np.asarray(scope.rewriter.offset(pivot, scope), dtype=np.int64)
    tested = offset - 1 - _literal(found)
    least = np.zeros(tested.shape, dtype=np.int64)
    most = MAX_SHARED + _multiple(size)[1]
    for k in range(min(_low_zeros(whole), most), 0, -1):
        least = np.where(offset >> k == tested >> k, k, least)
    return size, offset - tested, least


def _size_name(atom: Node, factor: Any) -> str | None:
    """Return argN for a parameter, 4*argN for four times one, perhaps widened as a whole."""
    if isinstance(factor, np.ndarray) or factor < 1:
        return None
    name = parameter_name(atom)
    if name is None and factor == 1 and atom.op in ("sext", "zext") and atom.poly is not None \
            and len(atom.poly.terms) == 1:
        (mono, factor), = atom.poly.terms.items()
        if len(mono) != 1 or isinstance(factor, np.ndarray) or factor < 1:
            return None
        name = parameter_name(mono[0])
    return name if name is None or factor == 1 else f"{factor}*{name}"


def _multiple(size: str) -> tuple[str, int]:
    """Return the parameter of `times*argN`, and how many low bits that leaves at zero."""
    times, mark, name = size.partition("*")
    return (name, _low_zeros(int(times))) if mark else (size, 0)


def _low_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def shows_sharing(scope: Scope, guard: Node, place: int | None) -> None:
    """Note which sizes a store's guard compares with another element than the one stored.

    place: the element's number in its instruction, one of whose earlier elements may be tested;
    None: any element of the group may (the rows of a matrix fragment).
    """
    for p in conjuncts(guard):
        if p.op != "ge0" or p.poly is None:
            continue
        group = own_group(scope, _in_elements(scope, p.poly, terms(scope, p.poly)))
        if group is None:
            continue
        size, back, least = group
        name, sure = _multiple(size)
        shown = (back != 0) & (least > sure)
        if place is not None:
            shown &= (back > 0) & (back <= place) & (name == size)
        if some(shown):
            scope.rewriter.forest.shared.add(name)


def bounds_of(scope: Scope, guard: Node) -> dict[Node, str]:
    """Return the parameters that a guard compares coordinates with: y -> argN."""
    out = {}
    for p in conjuncts(guard):
        if p.op == "ge0" and p.poly is not None:
            found = terms(scope, p.poly)
            group = own_group(scope, found)
            if group is not None and every((group[1] == 0) | (group[2] > 0)):
                y = next(m[0] for m in found if m and m[0] in scope.rewriter.coordinates)
                out[y] = group[0]
    return out


def moves_with(bound: Poly, address: Poly, size_bytes: int) -> str | None:
    """Return argN where one access of several elements is tested for one of them: v < argN.

    The address is to contain v times an element's size, the same in every lane; it may be a base
    plus a widened offset.
    """
    size, v = None, Poly(0, {})
    for mono, c in bound.terms.items():
        name = parameter_name(mono[0]) if len(mono) == 1 and is_number(c, 1) else None
        if name is not None and size is None:
            size = name
        else:
            v = v.sub(Poly(0, {mono: c}))
    if size is None or (v.is_const and not isinstance(v.const, np.ndarray)):
        return None
    places = [address]
    for mono, c in address.terms.items():
        if len(mono) == 1 and mono[0].op in ("sext", "zext") and mono[0].poly is not None \
                and is_number(c, 1):
            offset = mono[0].poly
            places.append(Poly(offset.width, {**offset.terms, (): coef_add(
                offset.const, address.const, offset.width)}))
    for element in (1, 2, 4, 8):
        for place in places:
            if element < size_bytes and all(
                    m in place.terms and _same(place.terms[m], c * element)
                    for m, c in v.terms.items() if m):
                gap = place.const - v.const * element
                if not isinstance(gap, np.ndarray) or every(gap == gap[0]):
                    return size
    return None


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b))


# --- polynomials ------------------------------------------------------------------------------


def _mono_tag(scope: Scope, mono: tuple[Node, ...]) -> Hash:
    tag = key("mono")
    for atom in mono:
        tag = tag + finish(scope.of(atom))
    return tag


def terms_hash(scope: Scope, found: Terms, width: int) -> Hash:
    """Return the hash of a polynomial's terms for each pair."""
    total: Hash = np.zeros((2, 1), dtype=np.uint64)
    for mono, (c, den) in found.items():
        tag = _mono_tag(scope, mono) if mono else key("one")
        total = total + _hash_fraction(tag, c, den, width)
    return hash_poly_tag(width, total)


def terms(scope: Scope, poly: Poly, address: bool = False) -> Terms:
    """Return a polynomial's terms for each pair, with pivots replaced and widened sums redone.

    address: it is the address of a global access, whose index does not wrap.
    """
    if scope.memo is None or len(scope.lane) > FEW:
        return _Substitution(scope, address).terms(poly)
    made = scope.memo.get((id(poly), address))
    if made is None:
        made = scope.memo[(id(poly), address)] = (poly, _Substitution(scope, address).terms(poly))
    found: Terms = made[1]
    return found


class _Casts(Values):
    """Widens sums whose coefficients differ by pair: the casts are nodes of their own.

    Each pair's own sum counts: which other lanes share a register is a matter of the layout.
    """

    each = True

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope.rewriter.forest)
        self.scope = scope
        self.made: dict[bytes, Node] = scope.rewriter.casts if len(scope.lane) <= FEW else {}

    def cast(self, op: str, poly: Poly, source: int) -> Node:
        """Return the integer that a polynomial modulo 2**source stands for, as an atom."""
        atom = poly.atom()
        if op == "zext" and atom is not None and atom.low is not None and atom.low >= 0 \
                and atom.high is not None and atom.high < 1 << source:
            return atom
        return self.node_of(op, source, poly, {m: (c, 1) for m, c in poly.terms.items()})

    def node_of(self, op: str, source: int, poly: Poly, found: Terms) -> Node:
        """Return a cast of terms as a node that lives as long as this pass, at least."""
        h = mix(key(f"{op}|{source}|{source}"), terms_hash(self.scope, found, source))
        half = 1 << (source - 1)
        bounds = (-half, half - 1) if op == "sext" else (0, (1 << source) - 1)
        return self._made(h, op, str(source), source, poly, found, bounds)

    def groups(self, counter: Node, size: int) -> Node:
        """Return floor(counter / size) for a power of two, as an atom: see `groups_of`."""
        groups = (counter, 0, size.bit_length() - 1)
        return self._made(_floor_hash(self.scope, *groups), "iop", _SHIFT, 32, None, groups,
                          (0, (1 << 31) - 2))

    def _made(self, h: Hash, op: str, attr: str, width: int, poly: Poly | None, found: Any,
              bounds: tuple[int, int]) -> Node:
        node = self.made.get(h.tobytes())
        if node is None:
            node = Node()
            node.op, node.attr, node.width, node.args = op, attr, width, ()
            node.poly, node.table, node.extra, node.aux = poly, None, found, None
            node.low, node.high = bounds
            node.h, node.deps, node.kids = h, 0, ()
            node.may_neg_zero, node.tainted, node.site = True, False, -1
            node.serial = -1 - len(self.made)
            self.made[h.tobytes()] = node
        return node


class _Substitution:
    """Puts coordinates for block indices in polynomials."""

    def __init__(self, scope: Scope, address: bool = False) -> None:
        self.scope, self.address = scope, address
        self.rewriter = scope.rewriter
        self.casts: _Casts | None = None
        self.moved: dict[Node, Terms] = {}

    def terms(self, poly: Poly, inside: bool = False) -> Terms:
        """Return a polynomial's terms; inside: of one that is widened in another."""
        widened = [a for m in poly.terms for a in m if self.scope.pivot(a) is None
                   and self.scope.recast(a)]
        literal = self._own(poly.const, poly.width)
        taking = [a for a in widened if (a,) in poly.terms]
        if len(widened) > 1:
            taking = [a for a in taking if a.op == "zext" and is_number(poly.terms[(a,)], 1)]
        if len(taking) == 1 and widened.count(taking[0]) == 1 and not inside:
            literal = self._widened(taking[0], poly.terms[(taking[0],)], literal)
        for atom in widened:
            if atom not in self.moved:
                self._widened(atom)
        if widened or any(self.scope.pivot(a) is not None for m in poly.terms for a in m):
            out = self._replaced(poly, literal)
        else:
            out = {m: (self._own(c, poly.width), 1) for m, c in poly.terms.items()}
        return {m: f for m, f in out.items() if not is_zero(f[0])}

    def _own(self, c: Any, width: int) -> Any:
        return settle(c[self.scope.lane], width) if isinstance(c, np.ndarray) else c

    def _widened(self, atom: Node, factor: Any = 0, literal: Any = 0) -> Any:
        """Put what a widened sum becomes in `moved`: an integer again where its range allows it.

        It stands in factor * atom + literal. Returns what is left of the literal.
        """
        assert atom.poly is not None
        if self.casts is None:
            self.casts = _Casts(self.scope)
        where, number = self._counted(atom.poly) if self.address else (np.zeros(1, dtype=bool), {})
        if where.all():
            self.moved[atom] = number
            return literal
        left = self._widen(atom, factor, literal)
        if where.any():
            parts, self.moved[atom] = ((where, number), (~where, self.moved[atom])), {}
            for pairs, found in parts:
                for m, (c, den) in found.items():
                    _collect(self.moved[atom], m, coef_mul(c, pairs.astype(np.int64), 0), den, 0)
            left = settle(np.where(where, literal, left), 0)
        return left

    def _counted(self, poly: Poly) -> tuple[Any, Terms]:
        """Return for which pairs a part of an address counts (`Values.counts`), and what it is.

        It is the same number in any width, whatever step the coordinates have.
        """
        assert self.casts is not None
        coefficients = {m: self._own(c, poly.width) for m, c in poly.terms.items()}
        own = Poly(poly.width, {m: c for m, c in coefficients.items() if not is_zero(c)})
        where = np.full(len(self.scope.lane), self.casts.counts(own))
        if not where.all():
            for pairs, each in by_symbols(own):
                if self.casts.counts(each):
                    where |= pairs
        return where, self.terms(poly.to_width(0), inside=True) if where.any() else {}

    def _widen(self, atom: Node, factor: Any, literal: Any) -> Any:
        """Put what a sum that may wrap becomes in `moved`; returns what is left of the literal.

        Its part below the step of the sum goes inside, whichever way it was written, so that a step
        that depends on the tile leaves no trace.
        """
        assert atom.poly is not None
        assert self.casts is not None
        found = self.terms(atom.poly, inside=True)
        whole = all(den == 1 for _c, den in found.values())
        plain = self._cast(atom, found) if whole else self._fraction(atom, found)
        if self.address and atom.op == "sext":
            beside = literal // factor if not isinstance(factor, np.ndarray) and factor > 0 else 0
            self.moved[atom] = self._apart(atom, found, plain, whole, beside)
            return literal
        if not whole:
            self.moved[atom] = plain
            return literal
        low = self._below(atom.op, atom.poly, factor, literal) if any(
            a.serial < 0 for m in plain for a in m) else 0
        if is_zero(low):
            self.moved[atom] = plain
            return literal
        _collect(found, (), low, 1, atom.poly.width)
        self.moved[atom] = self._cast(atom, found)
        return literal - low * factor

    def _apart(self, atom: Node, found: Terms, plain: Terms, whole: bool, beside: Any) -> Terms:
        """Return what a signed index becomes, with its literal outside (premise no-index-wrap).

        An element is counted from where an access begins, inside or outside of the widening, as a
        compiler likes it; an index that stays within 31 bits is the same number both ways. A
        negative literal inside needs as much beside the widened sum: together they are the index.
        """
        c, den = found.get((), (0, 1))
        if den != 1 or not any(a.serial < 0 for m in plain for a in m):
            return plain
        assert atom.poly is not None
        c = settle(c, atom.poly.width)
        moves = np.asarray((c >= np.minimum(0, -beside)) & (c < MOST_APART) & (c > -MOST_APART))
        out = settle(np.where(moves, c, 0), 0) if moves.ndim else c * bool(moves)
        if is_zero(out):
            return plain
        self.rewriter.forest.premises.add("no-index-wrap")
        found = {m: f for m, f in found.items() if m}
        rest = coef_add(c, coef_mul(out, -1, 0), atom.poly.width)
        if not is_zero(rest):
            found[()] = (rest, 1)
        made = dict(self._cast(atom, found) if whole else self._fraction(atom, found))
        _collect(made, (), out, 1, 0)
        return made

    def _cast(self, atom: Node, found: Terms) -> Terms:
        assert atom.poly is not None
        assert self.casts is not None
        width = atom.poly.width
        settled = {m: settle(c, width) for m, (c, _d) in found.items()}
        if self._starts_in_tile(settled):
            if atom.op == "zext":
                self.rewriter.forest.premises.add("no-index-wrap")
            return {m: (c, 1) for m, c in settled.items() if not is_zero(c)}
        return self._wide(atom.op, Poly(width, {m: c for m, c in settled.items()
                                                if not is_zero(c)}))

    def _wide(self, op: str, poly: Poly) -> Terms:
        """Return a widened sum; many elements of an access ask for the same one."""
        assert self.casts is not None
        scope, made, name = self.scope, self.rewriter.widened, None
        if len(scope.lane) <= FEW and all(scope.lasts(a) for m in poly.terms for a in m):
            name = (op, scope.region, len(self.rewriter.forest.shared), poly.name())
            if name in made:
                found: Terms = made[name]
                return found
        widen = self.casts.sext if op == "sext" else self.casts.zext
        found = {m: (c, 1) for m, c in widen(poly, poly.width, 0).terms.items()}
        if name is not None:
            made[name] = found
        return found

    def _starts_in_tile(self, found: dict[Any, Any]) -> bool:
        """Tell whether a sum is a coordinate less at most its offset in the tile."""
        c = found.get((), 0)
        if len(found) - (() in found) != 1 or not bool(np.all(np.asarray(c) <= 0)):
            return False
        (mono, factor), = ((m, f) for m, f in found.items() if m)
        pivot = self.rewriter.coordinates.get(mono[0]) if len(mono) == 1 else None
        if pivot is None or not is_number(factor, 1) \
                or mono[0].high is None or mono[0].high >= 1 << 31:
            return False
        return bool(np.all(self.rewriter.offset(pivot, self.scope) + c >= 0))

    def _below(self, op: str, poly: Poly, factor: Any, literal: Any) -> Any:
        """Return how much of literal / factor a widened sum takes in: see `Values._cast_sum`.

        An unsigned one takes in what counts the elements of one access (which do not straddle
        2**32, premise no-index-wrap), too.
        """
        if isinstance(factor, np.ndarray) or factor == 0 or np.any(literal % factor):
            return 0
        assert self.casts is not None
        symbols = Poly(poly.width, {m: c for m, c in poly.terms.items() if m})
        zeros, names = self.casts.zeros(symbols)
        here = self._own(poly.const, poly.width)

        def fits(bits: Any) -> Any:
            bits = np.minimum(self._own(bits, 0), poly.width - 1)
            low = low_bits(literal // factor, bits)
            return np.where(low_bits(here, bits) + low >> bits == 0, low, 0)

        low = fits(zeros)
        if names and np.any(low != fits(symbols.tz_each())):
            self.rewriter.forest.premises |= divisible(names)
        if op == "zext" and factor == 1:
            k = np.minimum(self._own(poly.tz_each(), 0), poly.width - 1)
            one_access = low_bits(literal, np.maximum(k, MAX_SHARED))
            if bool(np.any((one_access > low) & (one_access >> k != 0))):
                self.rewriter.forest.premises.add("no-index-wrap")
            low = np.maximum(low, one_access)
        return settle(low.astype(np.int64), 0) if low.ndim else int(low)

    def _fraction(self, atom: Node, found: Terms) -> Terms:
        """Return a widened sum of fractions, as it is where its range fits."""
        assert atom.poly is not None
        assert self.casts is not None
        width = atom.poly.width
        half = 1 << (width - 1)
        low, high = (-half, half) if atom.op == "sext" else (0, 2 * half)
        bounds = _bounds(found)
        if bounds is not None and every((bounds[0] >= low).all() & (bounds[1] < high)):
            return found
        return {(self.casts.node_of(atom.op, width, atom.poly, found),): (1, 1)}

    def _replaced(self, poly: Poly, literal: Any) -> Terms:
        pivot_of, moved = self.scope.pivot, self.moved
        out: Terms = {}
        # (factors still to look at, factors that stay, numerator, denominator)
        work: list[tuple[tuple[Node, ...], tuple[Node, ...], Any, int]] = [
            (m, (), self._own(c, poly.width), 1) for m, c in poly.terms.items() if m]
        work.append(((), (), literal, 1))
        steps = 0
        while work:
            mono, made, c, den = work.pop()
            at = next((i for i, a in enumerate(mono) if a in moved or pivot_of(a)), None)
            if at is None:
                _collect(out, join(mono, made), c, den, poly.width)
                continue
            rest = (*mono[:at], *mono[at + 1:])
            put = moved.get(mono[at])
            if put is not None:
                for m, (c2, step) in put.items():
                    product = coef_mul(c, c2, poly.width if den * step == 1 else 0)
                    work.append((rest, join(made, m), product, den * step))
                continue
            pivot = pivot_of(mono[at])
            assert pivot is not None
            divided = _divide(c, pivot.scale)
            size = _group(c, pivot.scale) if divided is None and den == 1 \
                and pivot.y is pivot.atom else 0
            if size:  # g * counter is floor(finer / size) - floor(offset / size)
                self.casts = self.casts or _Casts(self.scope)
                c = c // (pivot.scale // size)
                work.append((rest, join(made, (self.casts.groups(pivot.y, size),)), c, 1))
                work.append((rest, made, coef_mul(c, -(pivot.offset // size), poly.width), 1))
                continue
            if divided is not None:
                c, step = divided, 1
            else:
                step = pivot.scale
            width = poly.width if den * step == 1 else 0
            steps += 1
            if steps > 256:
                raise Conflict
            work.append((rest, join(made, (pivot.y,)), c, den * step))
            back = coef_mul(c, coef_mul(self.rewriter.offset(pivot, self.scope), -1, 0), width)
            if not is_zero(back):
                work.append((rest, made, back, den * step))
            for other, c2 in pivot.others:
                work.append((join(rest, other), made, coef_mul(c, -c2, width), den * step))
        return out


def _group(c: Any, scale: int) -> int:
    """Return scale / g for the greatest g that divides it and a coefficient.

    0: that is no power of two, or pairs have coefficients of their own.
    """
    if isinstance(c, np.ndarray):
        return 0
    size = scale // math.gcd(scale, c)
    return size if size & (size - 1) == 0 else 0


def _collect(out: Terms, mono: tuple[Node, ...], c: Any, den: int, width: int) -> None:
    old = out.get(mono)
    if old is None:
        out[mono] = (c, den)
        return
    c0, den0 = old
    common = math.lcm(den, den0)
    w = width if common == 1 else 0
    total = coef_add(coef_mul(c, common // den, w), coef_mul(c0, common // den0, w), w)
    out[mono] = (total, common)


def _divide(c: Any, scale: int) -> Any:
    """Return c / scale where that is whole for every pair."""
    if isinstance(c, np.ndarray):
        if some(c % np.int64(scale)):
            return None
        return c // np.int64(scale)
    return c // scale if c % scale == 0 else None


def _hash_fraction(tag: Hash, c: Any, den: int, width: int) -> Hash:
    if den == 1:
        c = settle(c, width)
        h = hash_ints(tag, c)
        return np.where(c == 0, np.uint64(0), h) if isinstance(c, np.ndarray) else (
            h if c else h * np.uint64(0))
    if isinstance(c, np.ndarray):
        common = np.gcd(np.abs(c), np.int64(den))
        num = c // common
        low: Any = np.int64(den) // common
        whole = low == 1
        num = np.where(whole, settle(num, width), num)
        h = hash_ints(tag, num)
        h = np.where(whole, h, hash_ints(mix(h, key("/")), low))
        return np.where(num == 0, np.uint64(0), h)
    g = math.gcd(abs(c), den)
    num, low_int = c // g, den // g
    if low_int == 1:
        return _hash_fraction(tag, num, 1, width)
    return hash_ints(mix(hash_ints(tag, num), key("/")), low_int)
