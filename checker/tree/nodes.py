"""Interned nodes: one node stands for a value in all lanes of a block, with a hash for each lane.

In: operator, attribute, children (same lane; a `gather` child comes from other lanes). Out: `Node`,
made only by `Forest.make`, so that two nodes with the same trees in all lanes are one object.
Operators of floats have names of their own, so that integer rules cannot touch them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from checker.arrays import every, some
from checker.tree.hashing import (
    MANY,
    Hash,
    collapse,
    finish,
    hash_ints,
    in_blocks,
    key,
    mix,
    ordered,
    unordered,
)
from checker.tree.poly import Poly, TooLarge, constant

__all__ = [
    "CAST_BIT", "COMPARE_BIT", "LOW_BITS", "SELECT_BIT", "UNFOUNDED", "UNFOUNDED_BIT",
    "UNKNOWN_BIT", "Forest", "Fuel", "Hasher", "Node", "choose",
    "hash_members", "hash_node", "hash_poly", "hash_poly_tag", "hash_select", "hash_step",
    "join_group", "member", "parameter_name",
]

COMPARE_BIT = 2  # a comparison lies below: its hash may depend on what sizes are shown to be
UNKNOWN_BIT = 4  # a select lies below that may give an undefined or opaque value
CAST_BIT = 8  # a widened sum lies below whose symbols have literals of their own in some lanes
UNFOUNDED = frozenset({"undef", "opaque"})
UNFOUNDED_BIT = 16  # bits that nobody wrote, or that are not modelled, lie below
LOW_BITS = 31  # bits that stand for no symbol
SELECT_BIT = 1  # a symbolic select lies below: its hash may depend on what a guard implies
SYMMETRIC = frozenset({"fadd", "fmul", "fextremum", "fcmp_sym", "imul", "imulhi_u", "imulhi_s",
                       "pxor"})
# order free and idempotent on values: sets
IDEMPOTENT = frozenset({
    "fmax", "fmin", "iand", "ior", "imin_u", "imin_s", "imax_u", "imax_s",
})
HASHED_LATE = frozenset({"mma", "krow"})
COMPARISONS = frozenset({"ge0", "eq0", "fcmp", "fcmp_sym"})
#: what is made of a value that is not hashed yet waits, too
HASHED_WITH = frozenset({
    "and", "bit", "eq0", "extract", "fadd", "fapprox", "fcmp", "fcmp_sym", "fcvt", "fdiv", "ffma",
    "fmax", "fmin", "fmul", "fneg", "gather", "ge0", "int", "mux", "not", "or", "pack", "sext",
    "typed", "zext",
})
GROUPED = IDEMPOTENT | {"ixor", "isum", "fexact"}


class Fuel(Exception):
    """A limit on nodes, iterations or time was reached."""


class Node:
    """A value in every lane; `h` is its hash [2, 1 | lanes]. Compared by identity.

    Loops, matrix steps, their rows, what these are read from and what is made of them are hashed
    when somebody asks: most belong to iterations that are compared by structure alone, or are
    hashed under coordinates only. by: works out the hash of a loop. varies: whether lanes differ,
    as far as that shows before.
    """

    __slots__ = ("_finished", "_h", "args", "attr", "aux", "by", "deps", "extra", "high", "kids",
                 "low", "may_neg_zero", "op", "poly", "serial", "site", "table", "tainted",
                 "varies", "width")

    op: str
    attr: str
    width: int
    args: tuple[Node, ...]
    poly: Poly | None
    table: npt.NDArray[Any] | None
    extra: Any
    _h: Hash | None
    _finished: Hash | None
    aux: Hash | None
    by: Callable[[], None] | None
    varies: bool
    deps: int
    low: int | None
    high: int | None
    may_neg_zero: bool
    tainted: bool
    serial: int
    site: int
    kids: tuple[Node, ...]

    @property
    def h(self) -> Hash:
        """The hash in each lane, [2, 1 | lanes]; of a row all its elements, [2, k * lanes]."""
        if self._h is None:
            _hash_late(self)
        assert self._h is not None
        return self._h

    @h.setter
    def h(self, h: Hash) -> None:
        self._h, self._finished = h, None

    @property
    def finished(self) -> Hash:
        """The hash as a factor of products: sums that a node stands in ask for it again."""
        if self._finished is None:
            self._finished = finish(self.h)
        return self._finished

    @property
    def uniform(self) -> bool:
        """True where all lanes hold one tree."""
        return (self._h is not None or not _varies(self)) and bool(self.h.shape[1] == 1)

    def __repr__(self) -> str:
        return f"<{self.serial} {self.op} {self.attr}>"


def _varies(node: Node) -> bool:
    """Tell whether some lanes differ, as far as that shows."""
    return node.varies if node._h is None else node._h.shape[1] > 1


def _made_varying(node: Node) -> bool:
    """Tell whether lanes of a new node differ, as far as what it is made of shows."""
    op, args = node.op, node.args
    if node.poly is not None:
        return any(isinstance(c, np.ndarray) or any(map(_varies, m))
                   for m, c in node.poly.terms.items())
    if op == "gather":
        return node.table is not None and some(node.table != node.table[0]) and _varies(args[0])
    if op == "fold":
        args = node.extra.steps
    elif (op in SYMMETRIC or op in GROUPED or op == "ffma") and any(
            a.op in ("gather", "mux") for a in args):  # lanes may add each other's values
        return sum(map(_varies, args)) == 1
    return any(map(_varies, args))


def _hashed_late(op: str, args: tuple[Node, ...], atoms: tuple[Node, ...]) -> bool:
    """Tell whether a new node waits for somebody to ask for its hash.

    Of loads, and of selects between them by a condition that is literal in no lane, equal hashes
    mean the same operands: interning by structure finds what interning by hash would.
    """
    return op in HASHED_LATE or op == "load" or (
        op in HASHED_WITH and any(a._h is None for a in (*args, *atoms))) or (
        op == "select" and (args[1]._h is None or args[2]._h is None) and _literal_nowhere(args[0]))


def _literal_nowhere(p: Node) -> bool:
    """Tell whether a condition is a comparison in every lane, or made of several that are."""
    if p.op in ("and", "or"):
        return all(q.op not in ("and", "or") and _literal_nowhere(q) for q in p.args)
    return _literal_nowhere(p.args[0]) if p.op == "not" else p.op in COMPARISONS


def _choose(table: npt.NDArray[Any], options: list[Hash]) -> Hash:
    every_option = np.empty((2, len(options), len(table)), dtype=np.uint64)
    for i, option in enumerate(options):
        every_option[:, i] = option
    at = table * len(table) + np.arange(len(table))
    return every_option.reshape(2, -1).take(at, axis=1)


def hash_poly(poly: Poly) -> Hash:
    """Hash a polynomial in each lane; terms that are zero in a lane do not count there."""
    total: Hash = np.zeros((2, 1), dtype=np.uint64)
    for mono, c in poly.terms.items():
        tag = key("one")
        if mono:
            tag = key("mono")
            for atom in mono:
                tag = tag + atom.finished
        term = hash_ints(tag, c)
        if isinstance(c, np.ndarray):
            term = np.where(c == 0, np.uint64(0), term)
        total = total + term
    return hash_poly_tag(poly.width, total)


def hash_poly_tag(width: int, total: Hash) -> Hash:
    """Hash a polynomial from the sum over its terms."""
    return mix(key(f"poly{width}"), finish(total))


class Hasher(Protocol):
    """What hashing a node needs to know of its children."""

    def of(self, node: Node) -> Hash:
        """Return the hash of a child."""

    def poly_hash(self, poly: Poly) -> Hash:
        """Return the hash of a polynomial."""


class _Base:
    """Hashes as they were when nodes were made."""

    def of(self, node: Node) -> Hash:
        return node.h

    def poly_hash(self, poly: Poly) -> Hash:
        return hash_poly(poly)


def choose(count: int, options: list[tuple[Any, Hash]]) -> Hash:
    """Return hashes put together: (which columns, their hashes), [2, count]."""
    out = np.empty((2, count), dtype=np.uint64)
    for at, h in options:
        for word in (0, 1):  # far faster than both at once
            out[word][at] = h[word]
    return out


def member(op: str, attr: str, h: Hash) -> Hash:
    """Return what one member adds to the sum of an order-free group."""
    return mix(key(f"member|{op}|{attr}"), h)


def _group_sum(node: Node, op: str, attr: str) -> Hash:
    """Return the sum over the members of an order-free group that a node stands for."""
    if node.op == op and node.attr == attr and node.aux is not None:
        return node.aux
    if node.op == "gather" and node.table is not None:
        inner = _group_sum(node.args[0], op, attr)
        return inner.take(node.table, axis=1) if inner.shape[1] > 1 else inner
    if node.op == "mux" and node.table is not None:
        return _choose(node.table, [_group_sum(a, op, attr) for a in node.args])
    return member(op, attr, node.h)


def join_group(node: Node, members: list[tuple[Hash, Hash]]) -> tuple[Hash, Hash]:
    """Hash an order-free group from its operands' hashes and member sums.

    Equal operands of a set count once.
    """
    tag = key(f"{node.op}|{node.attr}|{node.width}")
    h, total = members[0]
    for other_h, other in members[1:]:
        joined = total + other
        if node.op in IDEMPOTENT:
            same = (h == other_h).all(axis=0)
            joined_h = mix(tag, finish(joined))
            h, total = np.where(same, h, joined_h), np.where(same, total, joined)
        else:
            total = joined
            h = mix(tag, finish(total))
    return h, total


def _hash_logic(node: Node, h_of: Callable[[Node], Hash]) -> Hash:
    """Hash `and`/`or` from its members."""
    return hash_members(node.op, [h_of(a) for a in node.args])


def hash_members(op: str, hs: list[Hash]) -> Hash:
    """Hash a conjunction or disjunction in each lane: neutral and repeated members vanish."""
    neutral, absorbing = key("true"), key("false")
    if op == "or":
        neutral, absorbing = absorbing, neutral
    lanes = max(h.shape[1] for h in hs)
    every = np.empty((2, len(hs), lanes), dtype=np.uint64)
    for i, h in enumerate(hs):
        every[:, i] = h
    skip = _equal(every, neutral[:, :, None])
    dead = _equal(every, absorbing[:, :, None]).any(axis=0)
    for i in range(1, len(hs)):
        skip[i] |= _equal(every[:, :i], every[:, i:i + 1]).any(axis=0)
    marks = mix(key("member"), every.reshape(2, -1)).reshape(every.shape)
    marks[:, skip] = 0
    out = mix(key(op), finish(marks.sum(axis=1, dtype=np.uint64)))
    count = len(hs) - skip.sum(axis=0)
    if some(count <= 1):  # the one that is left, or none
        at = np.where(count == 1, np.argmin(skip, axis=0), 0)
        left = np.where(count == 1, every[:, at, np.arange(lanes)], neutral)
        out = np.where(count <= 1, left, out)
    return np.where(dead, absorbing, out) if some(dead) else out


def _equal(a: Hash, b: Hash) -> npt.NDArray[np.bool_]:
    """Tell where hashes are the same, word by word."""
    same = np.asarray(a[0] == b[0])
    return same & (a[1] == b[1]) if some(same) else same


def hash_select(width: int, p: Hash, a: Hash, b: Hash) -> Hash:
    """Hash p ? a : b; where both sides agree, or p is decided, it is the side itself."""
    h = ordered(key(f"select||{width}"), [p, a, b])
    for where, side in ((_equal(a, b), a), (_equal(p, key("true")), a),
                        (_equal(p, key("false")), b)):
        if some(where):
            h = np.where(where, side, h)
    return h


def hash_step(node: Node, a: Hash, b: Hash) -> Hash:
    """Hash one rounding step but for its accumulator, from rows [2, k, 1 | n] of finished hashes.

    Its products are a multiset (or a list, where places count).
    """
    count, pairs = a.shape[1], max(a.shape[2], b.shape[2])
    if count * pairs > MANY and pairs > 1:
        return in_blocks(partial(hash_step, node), pairs, max(MANY // count, 1), a, b)
    tag = key(f"mma|{node.attr}|{node.width}")
    both = a + b
    products = mix(key("product"), both.reshape(2, -1))
    if "list" in node.attr.split("|")[3]:
        place = np.repeat(np.arange(count, dtype=np.int64), both.shape[2])
        products = hash_ints(products, place)
    total = products.reshape(both.shape).sum(axis=1, dtype=np.uint64)
    return mix(tag, finish(total))


def _hash_row(node: Node) -> Hash:
    """Return the finished hashes of elements over k, [2, k * lanes]."""
    table = node.table
    assert table is not None
    lanes = table.shape[1]
    whole = np.empty((2, len(node.args), lanes), dtype=np.uint64)
    for i, a in enumerate(node.args):
        whole[:, i] = a.h
    whole = finish(whole.reshape(2, -1)).reshape(whole.shape)
    at = table[..., 0] * lanes + table[..., 1]
    out: Hash = whole.reshape(2, -1).take(at.ravel(), axis=1)
    return out


def _row(node: Node) -> Hash:
    assert node.table is not None
    return node.h.reshape(2, len(node.table), -1)


def _hash_late(node: Node) -> None:
    """Hash a matrix step or a row, and those that it is made of before."""
    stack = [node]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.kids if a._h is None]
        if waiting and node.by is None:
            stack += waiting
            continue
        stack.pop()
        if node._h is None and node.by is not None:
            node.by()
        elif node._h is None:
            h, node.aux = _hash_made(node)
            node.h = h if node.op == "krow" else collapse(h)


def _hash_made(node: Node) -> tuple[Hash, Hash | None]:
    """Return the hash of a new node in all lanes, and the member sum of a group."""
    op = node.op
    if op in GROUPED:
        return join_group(node, [(a.h, _group_sum(a, op, node.attr)) for a in node.args])
    if op == "mma":
        return mix(hash_step(node, _row(node.args[1]), _row(node.args[2])), node.args[0].h), None
    table = node.table
    if table is None:
        return hash_node(node, _BASE)
    if op == "gather":
        h = node.args[0].h
        return (h.take(table, axis=1) if h.shape[1] > 1 else h), None
    if op == "mux":
        return _choose(table, [a.h for a in node.args]), None
    if op == "krow":
        return _hash_row(node), None
    if op == "lanes":
        return np.where(table, key("true"), key("false")), None
    return hash_node(node, _BASE)


def hash_node(node: Node, by: Hasher) -> tuple[Hash, Hash | None]:
    """Return the hash of a node that looks at its own lane alone, from its children's."""
    op, h_of, poly_hash = node.op, by.of, by.poly_hash
    if op in ("and", "or"):
        return _hash_logic(node, h_of), None
    tag = key(f"{op}|{node.attr}|{node.width}")
    if op == "eq0":  # p == 0 and -p == 0 are one condition
        assert node.poly is not None
        return unordered(tag, [poly_hash(node.poly), poly_hash(node.poly.neg())]), None
    if node.poly is not None:
        tag = mix(tag, poly_hash(node.poly))
    if op in SYMMETRIC:
        return unordered(tag, [h_of(a) for a in node.args]), None
    if op == "ffma":
        a, b, c = (h_of(x) for x in node.args)
        return mix(unordered(tag, [a, b]), c), None
    if op == "select":
        return hash_select(node.width, *(h_of(x) for x in node.args)), None
    return ordered(tag, [h_of(a) for a in node.args]), None


_BASE = _Base()


class Forest:
    """All nodes of one kernel; `lanes` is the number of threads that stand side by side."""

    def __init__(self, lanes: int, max_nodes: int = 60_000,
                 divisible: Iterable[str] = ()) -> None:
        self.lanes = lanes
        self.itself = np.arange(lanes, dtype=np.int64)  # the table by which each lane sees itself
        self.divisible = frozenset(divisible)  # parameters taken for multiples of 16 from the start
        self.max_nodes = max_nodes
        self.nodes: list[Node] = []
        self.interned: dict[bytes, Node] = {}
        self.made: dict[Any, Node] = {}  # by structure: what was made before is not hashed again
        self.bits: dict[int, Node] = {}  # dependence bit -> the atom it stands for
        self.gathers: dict[tuple[int, bytes], Node] = {}
        self.alike: dict[Node, npt.NDArray[np.int64] | None] = {}
        self.tables: dict[bytes, npt.NDArray[Any]] = {}  # one of each
        self.columns: dict[int, npt.NDArray[np.int64]] = {}  # of tables: which are alike
        self.deadline = float("inf")
        self.work, self.max_work = 0, 320_000
        self.kept, self.max_kept = 0, 120_000_000  # hashes of (lane, context) pairs
        self.grid_bits = 0  # bits of block indices and of symbols computed from them
        self.hidden: dict[int, int] = {}  # such a symbol's bit -> bits of what it is computed from
        self.premises: set[str] = set()  # what index arithmetic was assumed to do
        self.sizes: frozenset[str] = frozenset()  # parameters that are sizes of tensors,
        self.fills: frozenset[str] = frozenset()  # and what these are filled with beyond their ends
        # parameters of which one test serves a group of elements
        self.shared: set[str] = set(self.divisible)
        self.negated: dict[Node, Node] = {}
        self.site = -1
        self.true = self.lanes_node(np.ones(lanes, dtype=bool))
        self.false = self.lanes_node(np.zeros(lanes, dtype=bool))

    def rest(self) -> None:
        """Give whoever looks at a finished kernel a share of its own, in work alone."""
        self.work, self.deadline = 0, float("inf")

    def spend(self, units: int = 1) -> None:
        """Count units of work; raise `Fuel` when the kernel's share (or its time) is spent.

        The count decides, so that a signature does not depend on the machine; the clock is a last
        resort that is looked at rarely.
        """
        before = self.work
        self.work += units
        if self.work > self.max_work:
            raise Fuel("work")
        if before >> 8 != self.work >> 8 and time.process_time() > self.deadline:
            raise Fuel("time")

    def keep(self, hashes: int) -> None:
        """Count hashes that stay until the kernel is done; raise `Fuel` at some gigabytes."""
        self.kept += hashes
        if self.kept > self.max_kept:
            raise Fuel("memory")

    # -- making
    def make(self, op: str, attr: str = "", width: int = 32, args: Sequence[Node] = (),
             poly: Poly | None = None, table: npt.NDArray[Any] | None = None, extra: Any = None,
             low: int | None = None, high: int | None = None, may_neg_zero: bool = True,
             fresh_bit: bool = False, h: Hash | None = None,
             by: Callable[[], None] | None = None) -> Node:
        """Return the one node with these trees; `fresh_bit` makes it a traceable symbol.

        by: puts the hash of a loop in its place when somebody asks for it.
        """
        args = tuple(args)
        name: Any = None
        if h is None:
            digest = None
            if table is not None:
                digest = xxhash.xxh3_128_digest(table.tobytes()) + bytes(str(table.shape), "ascii")
                table = self.tables.setdefault(digest, table)
            name = (op, attr, width, args if by is None else extra,
                    None if poly is None else poly.name(), digest)
            known = self.made.get(name)
            if known is not None:
                return known
        atoms = () if poly is None else tuple(a for mono in poly.terms for a in mono)
        node = Node()
        node.op, node.attr, node.width, node.args = op, attr, width, args
        node.poly, node.table, node.extra, node.aux, node.by = poly, table, extra, None, by
        if h is None and (by is not None or _hashed_late(op, args, atoms)):
            node._h = node._finished = None
            node.varies = _made_varying(node)
        else:
            if h is None:
                h, node.aux = _hash_made(node)
            node.h = collapse(h)
            token = xxhash.xxh3_128_digest(node.h.tobytes())
            known = self.interned.setdefault(token, node)
            if known is not node:
                if name is not None:
                    self.made[name] = known
                return known
        node.kids = (*node.args, *atoms)
        node.deps = SELECT_BIT if op == "select" else COMPARE_BIT if op == "ge0" else 0
        node.tainted = op in UNFOUNDED
        if node.tainted:
            node.deps |= UNFOUNDED_BIT
        for kid in node.kids:
            node.deps |= kid.deps
            node.tainted |= kid.tainted
        if op == "select" and (args[1].tainted or args[2].tainted):
            node.deps |= UNKNOWN_BIT
        if op in ("sext", "zext") and poly is not None and any(
                m and isinstance(c, np.ndarray) for m, c in poly.terms.items()):
            node.deps |= CAST_BIT
        if low is None and high is None and op not in NUMERIC:  # a bit pattern, as a number
            low, high = 0, (1 << width) - 1
        node.low, node.high, node.may_neg_zero = low, high, may_neg_zero
        node.serial = len(self.nodes) + 1
        node.site = self.site
        if fresh_bit:
            bit = 1 << (len(self.bits) + LOW_BITS.bit_length())
            self.bits[bit] = node
            node.deps |= bit
        self.spend()
        if len(self.nodes) >= self.max_nodes:
            raise Fuel("nodes")
        self.nodes.append(node)
        if name is not None:
            self.made[name] = node
        return node

    def first_alike(self, node: Node) -> npt.NDArray[np.int64] | None:
        """Return for each lane the first lane with the same tree; None where all may differ."""
        if node._h is None:  # nobody asked: lanes that look at the same elements, of rows
            if node.op != "krow":
                return None
            assert node.table is not None
            return self.first_columns(node.table)
        if node not in self.alike:
            h = node.h
            if node.op == "krow":  # whole rows alike
                rows = _row(node)
                place = np.arange(rows.shape[1], dtype=np.int64)
                whole = hash_ints(h, place.repeat(rows.shape[2])).reshape(rows.shape)
                h = whole.sum(axis=1, dtype=np.uint64)
            self.alike[node] = None
            order = h[0].argsort(kind="stable")
            ranked = h[0][order]
            fresh = np.ones(len(ranked), dtype=bool)
            np.not_equal(ranked[1:], ranked[:-1], out=fresh[1:])
            if not every(fresh):
                table = np.empty(len(order), dtype=np.int64)
                table[order] = order[fresh][np.cumsum(fresh) - 1]
                if every(h[1] == h[1][table]):
                    self.alike[node] = self.tables.setdefault(table.tobytes(), table)
        return self.alike[node]

    def first_columns(self, table: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return for each lane the first lane with the same column in a table of this forest."""
        name = id(table)
        if name not in self.columns:
            columns = np.ascontiguousarray(np.moveaxis(table, 1, 0)).reshape(table.shape[1], -1)
            kinds: dict[bytes, int] = {}
            first = np.array([kinds.setdefault(c.tobytes(), i) for i, c in enumerate(columns)],
                             dtype=np.int64)
            self.columns[name] = self.tables.setdefault(first.tobytes(), first)
        return self.columns[name]

    # -- small makers
    def lanes_node(self, mask: npt.NDArray[np.bool_]) -> Node:
        """Return the predicate that is a literal in each lane."""
        if every(mask) and hasattr(self, "true"):
            return self.true
        if not some(mask) and hasattr(self, "false"):
            return self.false
        return self.make("lanes", width=1, table=mask.astype(bool))

    def complement(self, p: Node) -> Node:
        """Return the comparison that holds where `poly >= 0` does not."""
        assert p.poly is not None
        return self.make("ge0", width=1, poly=p.poly.neg().sub(constant(0, 1)))

    def number(self, poly: Poly) -> Node:
        """Return an integer as a node; an atom of the same width is itself."""
        atom = poly.atom()
        if atom is not None and atom.width == poly.width and is_data(atom):
            return atom
        return self.make("int", width=poly.width, poly=poly,
                         may_neg_zero=not _never_neg_zero(poly))

    def literal(self, width: int, bits: int) -> Node:
        """Return a literal as a node."""
        return self.number(constant(width, bits))

    def gather(self, node: Node, table: npt.NDArray[np.int64]) -> Node:
        """Return the node whose lane i holds what `node` holds in lane table[i]."""
        if node.op != "gather" and node.uniform:
            return node
        memo = (node.serial, table.tobytes())
        known = self.gathers.get(memo)
        if known is None:
            known = self.gathers[memo] = self._gather(node, table)
        return known

    def _gather(self, node: Node, table: npt.NDArray[np.int64]) -> Node:
        if every(table == self.itself):
            return node
        if node.op == "gather":
            assert node.table is not None
            return self.gather(node.args[0], node.table[table])
        if node.op == "int":
            assert node.poly is not None
            return self.number(self.gather_poly(node.poly, table))
        if node.op == "lanes":
            assert node.table is not None
            return self.lanes_node(node.table[table])
        return self.make("gather", width=node.width, args=(node,), table=table, low=node.low,
                         high=node.high, may_neg_zero=node.may_neg_zero)

    def gather_poly(self, poly: Poly, table: npt.NDArray[np.int64]) -> Poly:
        """Return a polynomial as other lanes see it."""
        if poly.uniform:
            return poly
        total = Poly(poly.width, {})
        for mono, c in poly.terms.items():
            moved = tuple(sorted((self.gather(a, table) for a in mono), key=lambda a: a.serial))
            c = c[table] if isinstance(c, np.ndarray) else c
            part = Poly(poly.width, {moved: 1}).scale(c)
            total = total.add(part)
        return total

    def mux(self, table: npt.NDArray[np.int64], nodes: Sequence[Node]) -> Node:
        """Return the node whose lane i holds what nodes[table[i]] holds in lane i."""
        places: dict[Node, int] = {}  # in the order in which lanes look at them, whoever asks
        renumber = np.zeros(len(nodes), dtype=np.int64)
        for i in dict.fromkeys(table.tolist()):
            renumber[i] = places.setdefault(nodes[i], len(places))
        distinct = list(places)
        if len(distinct) == 1:
            return distinct[0]
        table = renumber[table]
        if all(n.op == "lanes" for n in distinct):
            return self.lanes_node(np.choose(table, [n.table for n in distinct]))
        if all(n.op == "int" for n in distinct):
            try:
                return self.number(self.mux_poly(table, [n.poly for n in distinct if n.poly]))
            except TooLarge:
                pass
        lows, highs = [n.low for n in distinct], [n.high for n in distinct]
        low = None if None in lows else min(x for x in lows if x is not None)
        high = None if None in highs else max(x for x in highs if x is not None)
        return self.make("mux", width=distinct[0].width, args=distinct, table=table,
                         low=low, high=high,
                         may_neg_zero=any(n.may_neg_zero for n in distinct))

    def mux_poly(self, table: npt.NDArray[np.int64], polys: Sequence[Poly]) -> Poly:
        """Return the polynomial that is polys[table[i]] in lane i."""
        total = Poly(polys[0].width, {})
        for i, poly in enumerate(polys):
            total = total.add(poly.scale((table == i).astype(np.int64)))
        return total


def _never_neg_zero(poly: Poly) -> bool:
    """A literal that is not the bits of -0 in any lane."""
    if not poly.is_const:
        return False
    c = poly.const
    sign = -(1 << (poly.width - 1))
    return not some(c == sign) if isinstance(c, np.ndarray) else c != sign


def parameter_name(atom: Node) -> str | None:
    """Return argN where an atom is a parameter as it stands, perhaps widened."""
    if atom.op in ("sext", "zext") and atom.poly is not None:
        inner = atom.poly.atom()
        if inner is None:
            return None
        atom = inner
    return f"arg{atom.attr.split('+')[0]}" if atom.op == "param" else None


NUMERIC = frozenset({"sext", "zext", "bit", "sreg", "y", "kappa", "trips"})


def is_data(node: Node) -> bool:
    """Tell whether an atom is a bit pattern of its own width (not a mere integer symbol)."""
    return node.op not in NUMERIC
