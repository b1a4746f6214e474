"""Rows: vector float operations (VOP1, VOP2, VOP3).

The mode register is part of each operation. `v_mad`/`v_mac` round twice and flush; `v_fma`/`v_fmac`
round once. `v_rcp v_exp ...` are fixed functions of their unit. Source: CDNA3 ISA chapter 12.
"""

from __future__ import annotations

from dataclasses import replace

from checker.core import Approx, Compare, Const, Conv, FloatMode, Source
from checker.gcn.context import Context
from checker.gcn.emitter import Emitter
from checker.gcn.machine import VCC, Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.words import words

_BITS = {"f16": 16, "f32": 32, "f64": 64, "bf16": 16}

#: 16-bit opcodes that keep the high half already on gfx9
_KEEP_ON_GFX9 = frozenset(words(
    "v_mad_f16 v_fma_f16 v_div_fixup_f16 v_med3_f16 v_min3_f16 v_max3_f16"))


def _type(c: Context) -> str:
    return c.base.rsplit("_", 1)[-1]


def give(c: Context, value: Source, quiet: bool = True) -> None:
    """Write a float result; arithmetic results are never signalling NaNs."""
    if quiet:
        c.e.quiet.add(value)
    c.put(value, keep_high=c.target.major >= 10 or (
        c.target.major == 9 and c.base in _KEEP_ON_GFX9))


# --- sums and products


@row("v_add_f32 v_add_f16 v_add_f64 v_sub_f32 v_sub_f16 v_subrev_f32 v_subrev_f16 v_mul_f32 "
     "v_mul_f16 v_mul_f64 v_min_f32 v_min_f16 v_min_f64 v_max_f32 v_max_f16 v_max_f64 "
     "v_min_num_f32 v_min_num_f16 v_min_num_f64 v_max_num_f32 v_max_num_f16 v_max_num_f64 "
     "v_minimum_f32 v_minimum_f16 v_minimum_f64 v_maximum_f32 v_maximum_f16 v_maximum_f64")
def v_binary(c: Context) -> None:
    """D = S0 op S1."""
    binary(c, c.base.split("_")[1], _type(c))


def binary(c: Context, name: str, type: str) -> None:
    """A two-operand float operation by its word in the opcode."""
    a, b = c.src(1, type), c.src(2, type)
    if name == "subrev":
        a, b = b, a
    mode = c.result_mode(type)
    w = _BITS[type]
    if name in ("min", "max", "minimum", "maximum"):
        give(c, extremum(c, name, a, b, mode, w))
        return
    core = {"add": "fadd", "sub": "fsub", "subrev": "fsub", "mul": "fmul"}[name]
    give(c, c.e.pure(core, w, (a, b), mode))


def extremum(c: Context, name: str, a: Source, b: Source, mode: FloatMode, w: int) -> Source:
    """min/max: in IEEE mode a signalling NaN is the result; else it is plain minNum/maxNum."""
    if name in ("minimum", "maximum"):
        return c.e.pure("f" + name[:3], w, (a, b), replace(mode, nan="nan"))
    if a == b and mode.denorm == "keep" and not mode.saturate:
        return c.e.value("mov", w, (a,), w)  # canonicalisation: the same value, made quiet
    if c.m.modes.get("ieee") is None and c.target.major < 12:
        raise Unmodelled("the mode register is not known here")
    number = c.e.pure("f" + name, w, (a, b), mode)
    if c.target.major >= 12 or c.m.modes["ieee"] == 0:
        return number
    signals = c.e.por(*(_signals(c.e, v, mode.type) for v in (a, b)))
    nan = Const(0, w) if mode.saturate else Const({16: 0x7E00, 32: 0x7FC00000}.get(
        w, 0x7FF8 << 48), w)
    return c.e.select(signals, nan, number, w)


def _signals(e: Emitter, value: Source, type: str) -> Source:
    """Whether a value is a signalling NaN; refuses where bits were made quiet unseen.

    Engines take a NaN for any other, so what makes one quiet (x * 1, max(x, x)) is nothing to
    them: the test must not stand on such a value.
    """
    if e.is_quiet(value):
        return Const(0, 1)
    found = e.definition(value)
    if found is not None and found[0] in ("fneg", "fabs"):
        return _signals(e, found[1][0], type)
    if found is not None and found[0] == "select":
        yes, no = (_signals(e, v, type) for v in found[1][1:])
        return e.por(e.pand(found[1][0], yes), e.pand(e.pnot(found[1][0]), no))
    if not e.is_raw(value) or type == "f64":
        raise Unmodelled("an extremum of what may be a signalling NaN, or was made quiet")
    sign, first, count = {"f16": (0x7FFF, 0x7C01, 0x1FE)}.get(type, (0x7FFFFFFF, 0x7F800001,
                                                                     0x3FFFFE))
    bits = e.and_(e.zext(value, 32), Const(sign, 32))
    return e.icmp("le", e.sub(bits, Const(first, 32)), Const(count, 32), "u32")


@row("v_fma_f32 v_fma_f16 v_fma_f64 v_fmac_f32 v_fmac_f16 v_fmac_f64 v_fmaak_f32 v_fmaak_f16 "
     "v_fmamk_f32 v_fmamk_f16 v_fmaak_f64 v_fmamk_f64")
def v_fma(c: Context) -> None:
    """D = S0 * S1 + S2, rounded once."""
    fused(c, c.base.split("_")[1])


def fused(c: Context, name: str) -> None:
    """fma (three sources), fmac (adds D), fmaak (literal last), fmamk (literal in the middle)."""
    type = _type(c)
    a, b, addend = _fma_sources(c, name, type)
    give(c, fma(c.e, a, b, addend, c.result_mode(type)))


def _fma_sources(c: Context, name: str, type: str) -> tuple[Source, Source, Source]:
    if name.endswith("mk"):
        return c.src(1, type), c.src(2, type), c.src(3, type)
    if name.endswith("ac"):
        a, b = c.src(1, type), c.src(2, type)
        return a, b, c.typed(c.operand(0), type, 2)
    return c.src(1, type), c.src(2, type), c.src(3, type)


def fma(e: Emitter, a: Source, b: Source, addend: Source, mode: FloatMode) -> Source:
    """One fused step; adding -0 in round-to-nearest leaves the rounded product."""
    w = _BITS[mode.type]
    if addend == Const(1 << (w - 1), w) and mode.rnd == "rn":
        return e.pure("fmul", w, (a, b), mode)
    return e.pure("ffma", w, (a, b, addend), mode)


@row("v_mad_f32 v_mac_f32 v_madak_f32 v_madmk_f32 v_mad_f16 v_mac_f16 v_madak_f16 v_madmk_f16")
def v_mad(c: Context) -> None:
    """D = S0 * S1 + S2, rounded twice; f32 flushes denormals whatever the mode."""
    type = _type(c)
    a, b, addend = _fma_sources(c, c.base.split("_")[1], type)
    mode = c.result_mode(type)
    if type == "f32":
        mode = replace(mode, denorm="flush")
    product = c.e.pure("fmul", _BITS[type], (a, b), replace(mode, saturate=False))
    give(c, c.e.pure("fadd", _BITS[type], (product, addend), mode))


@row("v_min3_f32 v_min3_f16 v_max3_f32 v_max3_f16 v_min3_num_f32 v_max3_num_f32 v_min3_num_f16 "
     "v_max3_num_f16")
def v_minmax3(c: Context) -> None:
    """D = min or max of three, in the order of the operands."""
    type, w = _type(c), _BITS[_type(c)]
    x, y, z = (c.src(i, type) for i in (1, 2, 3))
    name, mode = c.base[2:5], c.result_mode(type)
    inner = extremum(c, name, x, y, replace(mode, saturate=False), w)
    c.e.quiet.add(inner)
    give(c, extremum(c, name, inner, z, mode, w))


@row("v_minimum3_f32 v_maximum3_f32 v_minimum3_f16 v_maximum3_f16")
def v_minimum3(c: Context) -> None:
    """D = NaN-propagating min or max of three."""
    type, w = _type(c), _BITS[_type(c)]
    x, y, z = (c.src(i, type) for i in (1, 2, 3))
    mode = replace(c.result_mode(type), nan="nan")
    name = "f" + c.base[2:5]
    give(c, c.e.pure(name, w, (c.e.pure(name, w, (x, y), replace(mode, saturate=False)), z), mode))


@row("v_minmax_f32 v_minmax_f16 v_maxmin_f32 v_maxmin_f16 v_minmax_num_f32 v_minmax_num_f16 "
     "v_maxmin_num_f32 v_maxmin_num_f16")
def v_minmax_pair(c: Context) -> None:
    """D = max(min(S0, S1), S2) or min(max(S0, S1), S2)."""
    type, w = _type(c), _BITS[_type(c)]
    x, y, z = (c.src(i, type) for i in (1, 2, 3))
    mode = c.result_mode(type)
    inner = extremum(c, c.base[2:5], x, y, replace(mode, saturate=False), w)
    c.e.quiet.add(inner)
    give(c, extremum(c, c.base[5:8], inner, z, mode, w))


@row("v_med3_f32 v_med3_f16 v_med3_num_f32 v_med3_num_f16")
def v_med3(c: Context) -> None:
    """D = the greatest of the two operands that are left without the maximum of all three.

    With a NaN among them it is min3. The maximum is the first operand that compares equal to it,
    of zeros of both signs too: where it may be a zero, the result is no median in all bits.
    """
    type, w, e = _type(c), _BITS[_type(c)], c.e
    x, y, z = operands = tuple(c.src(i, type) for i in (1, 2, 3))
    mode = c.result_mode(type)
    plain = replace(mode, saturate=False)
    low, high = e.pure("fmin", w, (x, y), plain), e.pure("fmax", w, (x, y), plain)
    if any(_positive(v) for v in operands):
        median = e.pure("fmax", w, (low, e.pure("fmin", w, (high, z), plain)), mode)
    else:
        top = e.pure("fmax", w, (high, z), plain)
        equal = Compare("eq", type, "flush" if mode.denorm in ("flush", "flush_in") else "keep")
        first, second = (e.pure("fcmp", 1, (top, v), equal) for v in (x, y))
        rest = [e.pure("fmax", w, pair, mode) for pair in ((y, z), (x, z), (x, y))]
        median = e.select(first, rest[0], e.select(second, rest[1], rest[2], w), w)
    inner = extremum(c, "min", x, y, plain, w)
    e.quiet.add(inner)
    smallest = extremum(c, "min", inner, z, mode, w)
    nan: Source = Const(0, 1)
    for v in operands:
        if not isinstance(v, Const):
            nan = e.por(nan, e.pure("fclass", 1, (v,), ("notanumber", type)))
    give(c, e.select(nan, smallest, median, w))


def _positive(value: Source) -> bool:
    """A literal that is a normal number above zero, or infinity."""
    if not isinstance(value, Const):
        return False
    least, infinity = {16: (0x400, 0x7C00), 32: (0x00800000, 0x7F800000)}[value.width_bits]
    return least <= value.bits <= infinity


@row("v_ldexp_f32 v_ldexp_f16 v_ldexp_f64")
def v_ldexp(c: Context) -> None:
    """D = S0 * 2**S1 (S1 signed)."""
    type = _type(c)
    a, n = c.src(1, type), c.src(2, "u16" if type == "f16" else "u32")
    give(c, c.e.pure("fldexp", _BITS[type], (a, c.e.sext(n, 32)), c.result_mode(type)))


# --- rounding to integral values


@row("v_trunc_f32 v_trunc_f16 v_trunc_f64 v_ceil_f32 v_ceil_f16 v_ceil_f64 v_floor_f32 v_floor_f16 "
     "v_floor_f64 v_rndne_f32 v_rndne_f16 v_rndne_f64")
def v_integral(c: Context) -> None:
    """D = S0 rounded to an integral value."""
    integral(c, c.base.split("_")[1], _type(c))


def integral(c: Context, name: str, type: str) -> None:
    """Round to an integral float by its word in the opcode."""
    rnd = {"trunc": "rzi", "ceil": "rpi", "floor": "rmi", "rndne": "rni"}[name]
    a, mode = c.src(1, type), c.result_mode(type)
    give(c, c.e.pure("fcvt", _BITS[type], (a,), Conv(type, type, rnd, mode.denorm,
                                                     saturate=mode.saturate)))


# --- fixed functions of the unit


def approx(c: Context, fn: str, width: int, args: tuple[Source, ...], mode: FloatMode) -> Source:
    """A function that is fixed per unit."""
    return c.e.pure("fapprox", width, args, Approx(fn, c.target.unit, mode))


@row(" ".join(f"v_{f}_{t}" for f in ("exp", "log", "sin", "cos", "tanh")
              for t in ("f32", "f16", "bf16"))
     + " " + " ".join(f"v_{f}_{t}" for f in ("rcp", "rsq", "sqrt", "fract", "frexp_mant")
                      for t in ("f32", "f16", "f64"))
     + " v_rcp_bf16 v_rsq_bf16 v_sqrt_bf16 v_rcp_iflag_f32 v_exp_legacy_f32 "
     "v_log_legacy_f32 v_prng_b32 v_s_rcp_f32 v_s_exp_f32 v_s_log_f32 v_s_rsq_f32 v_s_sqrt_f32 "
     "v_s_rcp_f16 v_s_exp_f16 v_s_log_f16 v_s_rsq_f16 v_s_sqrt_f16")
def v_function(c: Context) -> None:
    """D = f(S0); equal only to itself on the same unit."""
    type = _type(c) if _type(c) != "b32" else "f32"
    give(c, approx(c, c.base.replace("v_s_", "v_"), _BITS[type], (c.src(1, type),),
                   c.result_mode(type)))


@row("v_frexp_exp_i32_f32 v_frexp_exp_i32_f64 v_frexp_exp_i16_f16")
def v_frexp_exp(c: Context) -> None:
    """D = exponent of S0 as an integer."""
    type = _type(c)
    c.put(approx(c, c.base, 16 if type == "f16" else 32, (c.src(1, type),), c.mode(type)),
          keep_high=c.target.major >= 10)


@row("v_mul_legacy_f32 v_mul_dx9_zero_f32")
def v_function2(c: Context) -> None:
    """D = f(S0, S1); equal only to itself on the same unit."""
    type = _type(c)
    give(c, approx(c, c.base, _BITS[type], (c.src(1, type), c.src(2, type)), c.result_mode(type)))


# --- division


@row("v_div_scale_f32 v_div_scale_f64", dsts=2)
def v_div_scale(c: Context) -> None:
    """D, flag = S0 scaled for the division S2 / S1."""
    type = _type(c)
    args = tuple(c.src(i, type) for i in (2, 3, 4))
    mode = c.mode(type)
    flag = approx(c, c.base + ".flag", 1, args, mode)
    give(c, approx(c, c.base, _BITS[type], args, mode))
    c.put_mask(1, c.e.pand(flag, c.m.exec))


@row("v_div_fmas_f32 v_div_fmas_f64")
def v_div_fmas(c: Context) -> None:
    """D = fma(S0, S1, S2), scaled where vcc is set."""
    type = _type(c)
    args = tuple(c.src(i, type) for i in (1, 2, 3))
    flag = c.e.within(c.m.mask(VCC), c.m.exec)
    c.reads |= {("s", VCC + i) for i in range(c.wave // 32)}
    give(c, approx(c, c.base, _BITS[type], (*args, flag), c.result_mode(type)))


@row("v_div_fixup_f32 v_div_fixup_f64 v_div_fixup_f16")
def v_div_fixup(c: Context) -> None:
    """D = special cases of S2 / S1, else the quotient S0."""
    from checker.gcn.division import exact_division
    type = _type(c)
    q, d, n = (c.src(i, type) for i in (1, 2, 3))
    mode = c.result_mode(type)
    found = exact_division(c.e, q, d, n, mode)
    give(c, found or approx(c, c.base, _BITS[type], (q, d, n), mode))
