"""Every exact identity: two bodies with one map, and near misses that must keep two.

Each claim is checked twice: equal pairs return the same bytes on edge values, near misses differ
on at least one of them (so that a near miss is a real difference, not a missing identity).
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from checker.draws import canonical_nans
from checker.replay import first_difference
from checker.replay.identities import IDENTITIES
from tests.replay.listing import run

A, B, C = ("ld.global.f32 %f1, [%rd4];\n", "ld.global.f32 %f2, [%rd4+256];\n",
           "ld.global.f32 %f3, [%rd4+512];\n")
OUT = "st.global.f32 [%rd5], %f9;\n"
PLUS = "add.rn.f32 %f4, %f1, 0f00000000;\nadd.rn.f32 %f5, %f2, 0f00000000;\n"
NULL = "mul.rn.f32 %f4, %f2, 0f00000000;\n"  # a zero, or NaN
HA, HB = "ld.global.b16 %h1, [%rd4];\n", "ld.global.b16 %h2, [%rd4+256];\n"
HC = "ld.global.b16 %h3, [%rd4+2];\n"
HOUT = "st.global.b16 [%rd5], %h9;\n"

INT = "cvt.rzi.s32.f32 %r9, %f1;\ncvt.rn.f32.s32 %f3, %r9;\n"
ABS = "abs.f32 %f4, %f1;\nabs.f32 %f5, %f2;\n"


def _chosen(order: str, nan: str = "%f4, %f4", first: str = "order") -> str:
    """%f4 where it comes first or is NaN, else %f5, by two selects."""
    tests = f"setp.{order}.f32 %p1, %f4, %f5;\nsetp.nan.f32 %p2, {nan};\n"
    one, two = ("%p2", "%p1") if first == "order" else ("%p1", "%p2")
    return tests + f"selp.f32 %f6, %f4, %f5, {one};\nselp.f32 %f9, %f4, %f6, {two};\n" + OUT


VOTE = "setp.gt.f32 %p1, %f1, %f2;\nvote.sync.ballot.b32 %r9, %p1, -1;\n"
WHOLE = "cvt.rn.f32.u32 %f9, %r10;\n" + OUT


def _counted(test: str = "gt") -> str:
    """How many lanes of a warp pass a test, by a butterfly of sums."""
    steps = "".join(f"shfl.sync.bfly.b32 %r11, %r10, {d}, 31, -1;\nadd.s32 %r10, %r10, %r11;\n"
                    for d in (16, 8, 4, 2, 1))
    return f"setp.{test}.f32 %p1, %f1, %f2;\nselp.b32 %r10, 1, 0, %p1;\n" + steps


WIDE = "cvt.f64.f32 %fd1, %f1;\ncvt.f64.f32 %fd2, %f2;\n"
SQUARE = "mul.rn.f64 %fd3, %fd1, %fd1;\nmul.rn.f64 %fd4, %fd3, %fd3;\nneg.f64 %fd5, %fd4;\n"
EQUAL = {
    "commute": (A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT,
                A + B + "add.rn.f32 %f9, %f2, %f1;\n" + OUT),
    "saturate": (A + B + "mul.rn.sat.f32 %f9, %f1, %f2;\n" + OUT,
                 A + B + "mul.rn.f32 %f4, %f1, %f2;\nmax.f32 %f4, %f4, 0f00000000;\n"
                 "min.f32 %f9, %f4, 0f3F800000;\n" + OUT),
    "sub-is-add-neg": (A + B + "sub.rn.f32 %f9, %f1, %f2;\n" + OUT,
                       A + B + "neg.f32 %f4, %f2;\nadd.rn.f32 %f9, %f4, %f1;\n" + OUT),
    "neg-involution": (A + "neg.f32 %f4, %f1;\nneg.f32 %f9, %f4;\n" + OUT,
                       A + "mov.b32 %r9, %f1;\nxor.b32 %r9, %r9, 0x80000000;\n"
                       "mov.b32 %f4, %r9;\nneg.f32 %f9, %f4;\n" + OUT),
    "neg-through-mul": (A + B + "neg.f32 %f4, %f1;\nmul.rn.f32 %f9, %f4, %f2;\n" + OUT,
                        A + B + "mul.rn.f32 %f4, %f1, %f2;\nneg.f32 %f9, %f4;\n" + OUT),
    "add-minus-zero": (A + "add.rn.f32 %f9, %f1, 0f80000000;\n" + OUT,
                       A + "mov.f32 %f9, %f1;\n" + OUT),
    "add-plus-zero": (A + B + "add.rn.f32 %f4, %f1, 0f00000000;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT,
                      A + B + "add.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, 0f00000000;\n"
                      + OUT),
    "mul-one": (A + "mul.rn.f32 %f9, %f1, 0fBF800000;\n" + OUT, A + "neg.f32 %f9, %f1;\n" + OUT),
    "mul-two": (A + "mul.rn.f32 %f9, %f1, 0f40000000;\n" + OUT,
                A + "add.rn.f32 %f9, %f1, %f1;\n" + OUT),
    "div-power-of-two": (A + "div.rn.f32 %f9, %f1, 0f40800000;\n" + OUT,
                         A + "mul.rn.f32 %f9, %f1, 0f3E800000;\n" + OUT),
    "rcp-is-div": (A + "rcp.rn.f32 %f9, %f1;\n" + OUT,
                   A + "div.rn.f32 %f9, 0f3F800000, %f1;\n" + OUT),
    "fma-unit-factor": (A + B + "fma.rn.f32 %f9, %f1, 0f3F800000, %f2;\n" + OUT,
                        A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "fma-minus-zero": (A + B + "fma.rn.f32 %f9, %f1, %f2, 0f80000000;\n" + OUT,
                       A + B + "mul.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "abs-abs": (A + "neg.f32 %f4, %f1;\nabs.f32 %f9, %f4;\n" + OUT,
                A + "mov.b32 %r9, %f1;\nand.b32 %r9, %r9, 0x7fffffff;\nmov.b32 %f9, %r9;\n" + OUT),
    "abs of minus abs": (A + "abs.f32 %f4, %f1;\nneg.f32 %f5, %f4;\nabs.f32 %f9, %f5;\n" + OUT,
                         A + "neg.f32 %f4, %f1;\nabs.f32 %f5, %f4;\nneg.f32 %f6, %f5;\n"
                         "neg.f32 %f9, %f6;\n" + OUT),
    "min-max-set": (A + B + C + "max.f32 %f4, %f1, %f2;\nmax.f32 %f9, %f4, %f3;\n" + OUT,
                    A + B + C + "max.f32 %f4, %f3, %f2;\nmax.f32 %f5, %f4, %f1;\n"
                    "max.f32 %f9, %f5, %f5;\n" + OUT),
    "max-nan-bottom": (A + "max.NaN.f32 %f9, %f1, 0fFF800000;\n" + OUT,
                       A + "mov.f32 %f9, %f1;\n" + OUT),
    "compare-swap": (A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;\n" + OUT,
                     A + B + "setp.lt.f32 %p1, %f2, %f1;\nselp.f32 %f9, %f1, %f2, %p1;\n" + OUT),
    "select-not": (A + B + "setp.leu.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
                   A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;\n" + OUT),
    "fold": (A + "mov.f32 %f4, 0f3FC00000;\nadd.rn.f32 %f4, %f4, 0f3F000000;\n"
             "mul.rn.f32 %f9, %f1, %f4;\n" + OUT,
             A + "add.rn.f32 %f9, %f1, %f1;\n" + OUT),
    "square-nonnegative": (A + "mul.rn.f32 %f9, %f1, %f1;\n" + OUT,
                           A + "mul.rn.f32 %f4, %f1, %f1;\nadd.rn.f32 %f9, %f4, 0f00000000;\n"
                           + OUT),
    "power-nonnegative": (A + "ex2.approx.f32 %f9, %f1;\n" + OUT,
                          A + "ex2.approx.f32 %f4, %f1;\nadd.rn.f32 %f9, %f4, 0f00000000;\n"
                          + OUT),
    "power-of-zero": (A + "neg.f32 %f4, %f1;\nex2.approx.f32 %f9, %f4;\n" + OUT,
                      A + "sub.rn.f32 %f4, 0f00000000, %f1;\nex2.approx.f32 %f9, %f4;\n" + OUT),
    "plus-zero-through-scale": (
        A + "add.rn.f32 %f4, %f1, 0f00000000;\nmul.rn.f32 %f9, %f4, 0f3FB8AA3B;\n" + OUT,
        A + "mul.rn.f32 %f4, %f1, 0f3FB8AA3B;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "plus-zero-through-max": (
        A + B + PLUS + "max.f32 %f9, %f4, %f5;\n" + OUT,
        A + B + "max.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "zero-addend-inside-plus-zero": (
        A + B + PLUS + "sub.rn.f32 %f6, %f4, %f5;\nex2.approx.f32 %f9, %f6;\n" + OUT,
        A + B + "sub.rn.f32 %f6, %f1, %f2;\nex2.approx.f32 %f9, %f6;\n" + OUT),
    "number-and-zero-addend": (
        A + PLUS.split("\n")[0] + "\nsub.rn.f32 %f9, 0fFF800000, %f4;\n" + OUT,
        A + "sub.rn.f32 %f9, 0fFF800000, %f1;\n" + OUT),
    "extremum-by-choice": (A + B + ABS + _chosen("gt"),
                           A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "extremum-by-choice, NaN first": (A + B + ABS + _chosen("gt", first="nan"),
                                      A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "nan-beside-a-number": (
        A + B + "setp.nan.f32 %p1, %f1, 0f3F800000;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "count-of-bits": (A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE,
                      A + B + _counted() + WHOLE),
    "count-of-bits, in parts": (  # the warp's two halves, by masks
        A + B + VOTE + "and.b32 %r11, %r9, 0xffff;\npopc.b32 %r10, %r11;\n"
        "shr.u32 %r11, %r9, 16;\npopc.b32 %r12, %r11;\nadd.s32 %r10, %r12, %r10;\n" + WHOLE,
        A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE),
    "count-of-bits, of one": (
        A + B + VOTE + "and.b32 %r11, %r9, 16;\npopc.b32 %r10, %r11;\n" + WHOLE,
        A + B + VOTE + "bfe.u32 %r10, %r9, 4, 1;\n" + WHOLE),
    "nan-of-a-magnitude": (
        A + B + "abs.f32 %f4, %f1;\nsetp.nan.f32 %p1, %f4, %f4;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "nan-of-a-magnitude, of -x": (
        A + B + "neg.f32 %f4, %f1;\nsetp.num.f32 %p1, %f4, %f2;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        + OUT,
        A + B + "abs.f32 %f4, %f2;\nsetp.num.f32 %p1, %f1, %f4;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        + OUT),
    "nan-of-a-magnitude, in a maximum": (
        A + B + ABS + _chosen("gt", "%f1, %f1"),
        A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "beyond-infinity": (
        A + "mov.f32 %f4, 0fFF800000;\nsetp.gt.f32 %p1, %f4, %f1;\nselp.f32 %f5, %f4, %f1, %p1;\n"
        "setp.lt.f32 %p1, 0f7F800000, %f5;\nselp.f32 %f9, %f4, %f5, %p1;\n" + OUT,
        A + "mov.f32 %f9, %f1;\n" + OUT),
    "beyond-infinity, or unordered": (
        A + B + "setp.ltu.f32 %p1, %f1, 0fFF800000;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        "setp.le.f32 %p1, %f2, 0f7F800000;\nselp.f32 %f9, %f9, %f1, %p1;\n" + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        "setp.num.f32 %p1, %f2, %f2;\nselp.f32 %f9, %f9, %f1, %p1;\n" + OUT),
    "extremum-by-choice, min": (A + B + ABS + _chosen("lt"),
                                A + B + ABS + "min.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "null-once": (A + B + NULL + "add.rn.f32 %f5, %f1, %f4;\nadd.rn.f32 %f9, %f5, %f4;\n" + OUT,
                  A + B + NULL + "add.rn.f32 %f9, %f4, %f1;\n" + OUT),
    "null-last": (
        A + B + C + NULL + "add.rn.f32 %f5, %f1, %f4;\nadd.rn.f32 %f9, %f5, %f3;\n" + OUT,
        A + B + C + NULL + "add.rn.f32 %f5, %f1, %f3;\nadd.rn.f32 %f9, %f5, %f4;\n" + OUT),
    "fma-null-product": (A + B + "fma.rn.f32 %f9, %f2, 0f00000000, %f1;\n" + OUT,
                         A + B + NULL + "add.rn.f32 %f9, %f1, %f4;\n" + OUT),
    "one-bit-word": (
        A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.b32 %r9, 1, 0, %p1;\nxor.b32 %r9, %r9, 1;\n"
        "setp.eq.b32 %p2, %r9, 0;\nselp.f32 %f9, %f1, %f2, %p2;\n" + OUT,
        A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;\n" + OUT),
    "xor-twice": (
        A + B + "mov.b32 %r9, %f1;\nmov.b32 %r10, %f2;\nxor.b32 %r11, %r9, %r10;\n"
        "st.shared.b32 [%r5], %r11;\nld.shared.b32 %r12, [%r5];\nxor.b32 %r13, %r12, %r9;\n"
        "mov.b32 %f9, %r13;\n" + OUT,
        A + B + "mov.f32 %f9, %f2;\n" + OUT),
    "xor-select": (A + B + "mov.b32 %r9, %f1;\nmov.b32 %r10, %f2;\nxor.b32 %r11, %r9, %r10;\n"
                   "setp.gt.f32 %p1, %f1, %f2;\nselp.b32 %r12, %r11, 0, %p1;\n"
                   "xor.b32 %r13, %r9, %r12;\nmov.b32 %f9, %r13;\n" + OUT,
                   A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
}

PLACES = ("ld.global.f32 %f4, [%rd4+768];\nor.b32 %r10, %r1, 128;\n"
          "setp.gt.f32 %p1, %f1, %f2;\nselp.b32 %r11, %r1, %r10, %p1;\n"
          "setp.gt.f32 %p2, %f3, %f4;\nselp.b32 %r12, %r1, %r10, %p2;\n")
UPPER = "cvt.u32.u16 %r11, %h1;\nshl.b32 %r11, %r11, 16;\n"
PICK = "selp.f32 %f9, %f1, %f2, %p3;\n"

EQUAL |= {
    "unsigned-order": (A + B + C + PLACES + "setp.lt.s32 %p3, %r11, %r12;\n" + PICK + OUT,
                       A + B + C + PLACES + "setp.lt.u32 %p3, %r11, %r12;\n" + PICK + OUT),
    "unsigned-order: joined": (
        A + B + HA + "cvt.u32.u16 %r11, %h1;\nsetp.ge.s32 %p3, %r1, %r11;\n" + PICK + OUT,
        A + B + HA + "cvt.u32.u16 %r11, %h1;\nsetp.le.u32 %p3, %r11, %r1;\n" + PICK + OUT),
    "fma-scaled-integer": (
        A + B + INT + "mul.rn.f32 %f4, %f3, 0f3D800000;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + INT + "fma.rn.f32 %f9, %f3, 0f3D800000, %f2;\n" + OUT),
    "fma-scaled-integer: rounded in place": (
        A + B + "cvt.rmi.f32.f32 %f3, %f1;\nmul.rn.f32 %f4, %f3, 0fBE000000;\n"
        "add.rn.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + "cvt.rmi.f32.f32 %f3, %f1;\nfma.rn.f32 %f9, 0fBE000000, %f3, %f2;\n" + OUT),
    "fma-exact-product: in double precision": (
        A + B + WIDE + "mul.rn.f64 %fd3, %fd1, %fd2;\nadd.rn.f64 %fd4, %fd3, %fd1;\n"
        "cvt.rn.f32.f64 %f9, %fd4;\n" + OUT,
        A + B + WIDE + "fma.rn.f64 %fd4, %fd1, %fd2, %fd1;\ncvt.rn.f32.f64 %f9, %fd4;\n" + OUT),
}

HALVES = {
    "half-through-single": (HA + HB + "add.rn.f16 %h9, %h1, %h2;\n" + HOUT,
                            HA + HB + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\n"
                            "add.rn.f32 %f3, %f1, %f2;\ncvt.rn.f16.f32 %h9, %f3;\n" + HOUT),
    "widen-narrow": (HA + "cvt.f32.f16 %f1, %h1;\ncvt.rn.f16.f32 %h9, %f1;\n" + HOUT,
                     HA + "mov.b16 %h9, %h1;\n" + HOUT),
    "neg-through-widen": (HA + "cvt.f32.f16 %f1, %h1;\nneg.f32 %f2, %f1;\n"
                          "cvt.rn.f16.f32 %h9, %f2;\n" + HOUT,
                          HA + "xor.b16 %h9, %h1, 0x8000;\n" + HOUT),
    "narrow-order": (HA + HB + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\n"
                     "max.f32 %f3, %f1, %f2;\ncvt.rn.f16.f32 %h9, %f3;\n" + HOUT,
                     HA + HB + "max.f16 %h9, %h2, %h1;\n" + HOUT),
    "fma-exact-product": (HA + HB + HC + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\n"
                          "cvt.f32.f16 %f3, %h3;\nfma.rn.f32 %f4, %f1, %f2, %f3;\n"
                          "cvt.rn.f16.f32 %h9, %f4;\n" + HOUT,
                          HA + HB + HC + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\n"
                          "cvt.f32.f16 %f3, %h3;\nmul.rn.f32 %f4, %f1, %f2;\n"
                          "add.rn.f32 %f5, %f4, %f3;\ncvt.rn.f16.f32 %h9, %f5;\n" + HOUT),
}

BF = {
    "bf16-shift": (HA + "cvt.f32.bf16 %f9, %h1;\n" + OUT,
                   HA + "cvt.u32.u16 %r9, %h1;\nshl.b32 %r9, %r9, 16;\nmov.b32 %f9, %r9;\n" + OUT),
    "widen-widen": (HA + "cvt.f32.bf16 %f1, %h1;\nmul.rn.f32 %f9, %f1, %f1;\n" + OUT,
                    HA + "mov.b32 %r9, {0, %h1};\nmov.b32 %f1, %r9;\nmul.rn.f32 %f9, %f1, %f1;\n"
                    + OUT),
}

BF_ONLY = {
    "half-through-single": (HA + HB + "mul.rn.bf16 %h9, %h1, %h2;\n" + HOUT,
                            HA + HB + "cvt.f32.bf16 %f1, %h1;\ncvt.f32.bf16 %f2, %h2;\n"
                            "mul.rn.f32 %f3, %f1, %f2;\ncvt.rn.bf16.f32 %h9, %f3;\n" + HOUT),
}

DIFFERENT = {
    "min-max-set: a subnormal that is flushed": (
        A + "max.ftz.f32 %f9, %f1, %f1;\n" + OUT, A + "mov.f32 %f9, %f1;\n" + OUT),
    "min-max-set: a subnormal that is flushed before it is compared": (
        A + B + "min.ftz.f32 %f4, %f1, %f1;\nmax.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + "max.f32 %f9, %f1, %f2;\n" + OUT),
    "saturate: a subnormal that is flushed": (
        A + "max.ftz.f32 %f4, %f1, %f1;\ncvt.sat.f32.f32 %f9, %f4;\n" + OUT,
        A + "cvt.sat.f32.f32 %f9, %f1;\n" + OUT),
    "max-nan-bottom: a subnormal that is flushed": (
        A + "max.ftz.NaN.f32 %f9, %f1, 0fFF800000;\n" + OUT, A + "mov.f32 %f9, %f1;\n" + OUT),
    "unsigned-order: one of the two may be negative": (
        A + B + C + PLACES.replace("%r12, %r1, %r10", "%r12, %r1, -3")
        + "setp.lt.s32 %p3, %r11, %r12;\n" + PICK + OUT,
        A + B + C + PLACES.replace("%r12, %r1, %r10", "%r12, %r1, -3")
        + "setp.lt.u32 %p3, %r11, %r12;\n" + PICK + OUT),
    "unsigned-order: the upper half": (
        A + B + HA + UPPER + "setp.gt.s32 %p3, %r11, %r1;\n" + PICK + OUT,
        A + B + HA + UPPER + "setp.gt.u32 %p3, %r11, %r1;\n" + PICK + OUT),
    "an-integer-times-no-power": (
        A + B + INT + "mul.rn.f32 %f4, %f3, 0f3F2AAAAB;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + INT + "fma.rn.f32 %f9, %f3, 0f3F2AAAAB, %f2;\n" + OUT),
    "no-integer-times-a-power": (
        A + B + "mul.rn.f32 %f4, %f1, 0f3D800000;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + "fma.rn.f32 %f9, %f1, 0f3D800000, %f2;\n" + OUT),
    "an-integral-value-times-a-large-power": (
        A + B + "cvt.rmi.f32.f32 %f3, %f1;\nmul.rn.f32 %f4, %f3, 0f40000000;\n"
        "add.rn.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + "cvt.rmi.f32.f32 %f3, %f1;\nfma.rn.f32 %f9, %f3, 0f40000000, %f2;\n" + OUT),
    "a-product-in-double-precision": (
        A + B + WIDE + SQUARE + "add.rn.f64 %fd6, %fd4, %fd5;\ncvt.rn.f32.f64 %f9, %fd6;\n" + OUT,
        A + B + WIDE + SQUARE + "fma.rn.f64 %fd6, %fd3, %fd3, %fd5;\ncvt.rn.f32.f64 %f9, %fd6;\n"
        + OUT),
    "product-may-be-minus-zero": (
        A + B + "mul.rn.f32 %f9, %f1, %f2;\n" + OUT,
        A + B + "mul.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "reciprocal-sees-the-zero": (
        A + "neg.f32 %f4, %f1;\nrcp.rn.f32 %f9, %f4;\n" + OUT,
        A + "sub.rn.f32 %f4, 0f00000000, %f1;\nrcp.rn.f32 %f9, %f4;\n" + OUT),
    "plus-zero-through-half": (
        A + "add.rn.f32 %f4, %f1, 0f00000000;\nmul.rn.f32 %f9, %f4, 0f3F000000;\n" + OUT,
        A + "mul.rn.f32 %f4, %f1, 0f3F000000;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "plus-zero-through-minus": (
        A + "add.rn.f32 %f4, %f1, 0f00000000;\nmul.rn.f32 %f9, %f4, 0fBFB8AA3B;\n" + OUT,
        A + "mul.rn.f32 %f4, %f1, 0fBFB8AA3B;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "plus-zero-through-one-side": (
        A + B + PLUS + "max.f32 %f9, %f4, %f2;\n" + OUT,
        A + B + "max.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, 0f00000000;\n" + OUT),
    "zero-addend-by-itself": (A + B + PLUS + "sub.rn.f32 %f9, %f4, %f5;\n" + OUT,
                              A + B + "sub.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "zero-subtrahend": (A + B + PLUS + "sub.rn.f32 %f9, %f1, %f5;\n" + OUT,
                        A + B + "sub.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "saturated-infinity-is-a-number": (
        A + B + "add.rn.sat.f32 %f4, %f2, 0fFF800000;\nex2.approx.f32 %f5, %f4;\n"
        "add.rn.f32 %f6, %f1, %f5;\nadd.rn.f32 %f9, %f6, %f5;\n" + OUT,
        A + B + "add.rn.sat.f32 %f4, %f2, 0fFF800000;\nex2.approx.f32 %f5, %f4;\n"
        "add.rn.f32 %f9, %f1, %f5;\n" + OUT),
    "flushed-by-itself": (A + "max.ftz.f32 %f9, %f1, %f1;\n" + OUT,
                          A + "mov.f32 %f9, %f1;\n" + OUT),
    "flushed-over-the-bottom": (A + "min.ftz.NaN.f32 %f9, %f1, 0f7F800000;\n" + OUT,
                                A + "mov.f32 %f9, %f1;\n" + OUT),
    "nan-beside-a-nan": (
        A + B + "setp.nan.f32 %p1, %f1, 0f7FC00000;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "nan-beside-another": (
        A + B + "setp.nan.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "count-without-a-lane": (
        A + B + VOTE + "and.b32 %r9, %r9, 0x7fffffff;\npopc.b32 %r10, %r9;\n" + WHOLE,
        A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE),
    "count-of-another-test": (A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE,
                              A + B + _counted("ge") + WHOLE),
    "count-of-zeros": (A + B + VOTE + "not.b32 %r9, %r9;\npopc.b32 %r10, %r9;\n" + WHOLE,
                       A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE),
    "a-vote-is-no-count": (  # the lowest bit that is set
        A + B + VOTE + "neg.s32 %r10, %r9;\nand.b32 %r10, %r10, %r9;\npopc.b32 %r10, %r10;\n"
        + WHOLE,
        A + B + VOTE + "popc.b32 %r10, %r9;\n" + WHOLE),
    "at-infinity": (
        A + B + "setp.le.f32 %p1, %f1, 0fFF800000;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "mov.f32 %f9, %f1;\n" + OUT),
    "below-plus-infinity": (
        A + B + "setp.lt.f32 %p1, %f1, 0f7F800000;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "mov.f32 %f9, %f1;\n" + OUT),
    "below-the-least-number": (
        A + B + "setp.lt.f32 %p1, %f1, 0fFF7FFFFF;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "mov.f32 %f9, %f1;\n" + OUT),
    "beyond-infinity-or-unordered": (
        A + B + "setp.ltu.f32 %p1, %f1, 0fFF800000;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "mov.f32 %f9, %f1;\n" + OUT),
    "nan-of-a-difference": (  # inf - inf
        A + B + "sub.rn.f32 %f4, %f1, %f1;\nsetp.nan.f32 %p1, %f4, %f4;\n"
        "selp.f32 %f9, %f2, %f1, %p1;\n" + OUT,
        A + B + "setp.nan.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "equal-to-a-magnitude": (
        A + B + "abs.f32 %f4, %f1;\nsetp.eq.f32 %p1, %f4, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n"
        + OUT,
        A + B + "setp.eq.f32 %p1, %f1, %f1;\nselp.f32 %f9, %f2, %f1, %p1;\n" + OUT),
    "choice-by-place-of-zeros": (  # +0 and -0: the second
        A + B + "mov.f32 %f4, %f1;\nmov.f32 %f5, %f2;\n" + _chosen("gt"),
        A + B + "max.NaN.f32 %f9, %f2, %f1;\n" + OUT),
    "choice-of-a-zero-of-any-sign": (
        A + B + "abs.f32 %f4, %f1;\nmov.f32 %f5, %f2;\n" + _chosen("gt"),
        A + B + "abs.f32 %f4, %f1;\nmax.NaN.f32 %f9, %f2, %f4;\n" + OUT),
    "least-of-a-zero-of-any-sign": (
        A + B + "mov.f32 %f4, %f1;\nabs.f32 %f5, %f2;\n" + _chosen("lt"),
        A + B + "abs.f32 %f5, %f2;\nmin.NaN.f32 %f9, %f1, %f5;\n" + OUT),
    "choice-without-nan": (A + B + ABS + "setp.gt.f32 %p1, %f4, %f5;\n"
                           "selp.f32 %f9, %f4, %f5, %p1;\n" + OUT,
                           A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "choice-by-the-other-nan": (A + B + ABS + _chosen("gt", "%f5, %f5"),
                                A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "choice-of-the-least": (A + B + ABS + _chosen("lt"),
                            A + B + ABS + "max.NaN.f32 %f9, %f5, %f4;\n" + OUT),
    "choice-of-a-number": (A + B + ABS + _chosen("gt"),
                           A + B + ABS + "max.f32 %f9, %f5, %f4;\n" + OUT),
    "null-is-not-nothing": (A + B + NULL + "add.rn.f32 %f9, %f1, %f4;\n" + OUT,
                            A + B + "mov.f32 %f9, %f1;\n" + OUT),
    "null-of-another": (A + B + C + NULL + "add.rn.f32 %f9, %f1, %f4;\n" + OUT,
                        A + B + C + "mul.rn.f32 %f4, %f3, 0f00000000;\n"
                        "add.rn.f32 %f9, %f1, %f4;\n" + OUT),
    "fma-null-addend": (  # a product that underflows to -0 before +0 is added
        A + B + C + "mul.rn.f32 %f4, %f3, 0f00000000;\nfma.rn.f32 %f9, %f1, %f2, %f4;\n" + OUT,
        A + B + C + "mul.rn.f32 %f4, %f3, 0f00000000;\nmul.rn.f32 %f5, %f1, %f2;\n"
        "add.rn.f32 %f9, %f5, %f4;\n" + OUT),
    "one-bit-other-test": (
        A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.b32 %r9, 1, 0, %p1;\n"
        "setp.eq.b32 %p2, %r9, 0;\nselp.f32 %f9, %f1, %f2, %p2;\n" + OUT,
        A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;\n" + OUT),
    "xor-with-another": (
        A + B + C + "mov.b32 %r9, %f1;\nmov.b32 %r10, %f2;\nxor.b32 %r11, %r9, %r10;\n"
        "mov.b32 %r12, %f3;\nxor.b32 %r13, %r11, %r12;\nmov.b32 %f9, %r13;\n" + OUT,
        A + B + C + "mov.f32 %f9, %f2;\n" + OUT),
    "zero-minus": (A + "sub.rn.f32 %f9, 0f00000000, %f1;\n" + OUT, A + "neg.f32 %f9, %f1;\n" + OUT),
    "plus-zero-is-not-x": (A + "add.rn.f32 %f9, %f1, 0f00000000;\n" + OUT,
                           A + "mov.f32 %f9, %f1;\n" + OUT),
    "seeded-sum": (A + B + "add.rn.f32 %f4, %f1, 0f00000000;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT,
                   A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "fma-plus-zero": (A + B + "fma.rn.f32 %f9, %f1, %f2, 0f00000000;\n" + OUT,
                      A + B + "mul.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "max-is-not-where": (A + B + "max.f32 %f9, %f2, %f1;\n" + OUT,
                         A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;\n"
                         + OUT),
    "max-bottom-without-nan": (A + "max.f32 %f9, %f1, 0fFF800000;\n" + OUT,
                               A + "mov.f32 %f9, %f1;\n" + OUT),
    "twice-then-add": (A + B + "fma.rn.f32 %f9, %f1, 0f40000000, %f2;\n" + OUT,
                       A + B + "add.rn.f32 %f4, %f1, %f1;\nadd.rn.f32 %f9, %f4, %f2;\n" + OUT),
    "mul-add-neg": (A + B + "mul.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, %f1;\n" + OUT,
                    A + B + "sub.rn.f32 %f4, 0f00000000, %f1;\nmul.rn.f32 %f5, %f1, %f2;\n"
                    "sub.rn.f32 %f9, %f5, %f4;\n" + OUT),
    "fma-is-not-mul-add": (A + B + C + "fma.rn.f32 %f9, %f1, %f2, %f3;\n" + OUT,
                           A + B + C + "mul.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, %f3;\n"
                           + OUT),
    "sum-order": (A + B + C + "add.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, %f3;\n" + OUT,
                  A + B + C + "add.rn.f32 %f4, %f3, %f2;\nadd.rn.f32 %f9, %f4, %f1;\n" + OUT),
    "div-by-three": (A + "div.rn.f32 %f9, %f1, 0f40400000;\n" + OUT,
                     A + "mul.rn.f32 %f9, %f1, 0f3EAAAAAB;\n" + OUT),
    "rounding-mode": (A + B + "add.rz.f32 %f9, %f1, %f2;\n" + OUT,
                      A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "flush": (A + B + "add.rn.ftz.f32 %f9, %f1, %f2;\n" + OUT,
              A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "mul-one-flushes": (A + "mul.rn.ftz.f32 %f9, %f1, 0f3F800000;\n" + OUT,
                        A + "mov.f32 %f9, %f1;\n" + OUT),
    "saturate": (A + B + "add.rn.sat.f32 %f9, %f1, %f2;\n" + OUT,
                 A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
    "max-nan-mode": (A + B + "max.NaN.f32 %f9, %f1, %f2;\n" + OUT,
                     A + B + "max.f32 %f9, %f1, %f2;\n" + OUT),
    "min-of-max": (A + B + C + "max.f32 %f4, %f1, %f2;\nmin.f32 %f9, %f4, %f3;\n" + OUT,
                   A + B + C + "max.f32 %f4, %f1, %f3;\nmin.f32 %f9, %f4, %f2;\n" + OUT),
    "greater-or-unordered": (
        A + B + "setp.gtu.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, 0f00000000, %p1;\n" + OUT,
        A + B + "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, 0f00000000, %p1;\n" + OUT),
    "another-element": (A + B + "add.rn.f32 %f9, %f1, %f1;\n" + OUT,
                        A + B + "add.rn.f32 %f9, %f1, %f2;\n" + OUT),
}

NARROW_DIFFERENT = {
    "infinity-made-finite": (
        HA + "cvt.f32.f16 %f1, %h1;\ncvt.rna.satfinite.tf32.f32 %r9, %f1;\nmov.b32 %f4, %r9;\n"
        "mul.rn.f32 %f5, %f4, 0f00800000;\ncvt.rn.f16.f32 %h9, %f5;\n" + HOUT,
        HA + "cvt.f32.f16 %f1, %h1;\nmul.rn.f32 %f5, %f1, 0f00800000;\ncvt.rn.f16.f32 %h9, %f5;\n"
        + HOUT),
    "f16-fma-through-single": (
        HA + HB + HC + "fma.rn.f16 %h9, %h1, %h2, %h3;\n" + HOUT,
        HA + HB + HC + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\ncvt.f32.f16 %f3, %h3;\n"
        "fma.rn.f32 %f4, %f1, %f2, %f3;\ncvt.rn.f16.f32 %h9, %f4;\n" + HOUT),
    "second-rounding": (
        HA + HB + HC + "add.rn.f16 %h4, %h1, %h2;\nadd.rn.f16 %h9, %h4, %h3;\n" + HOUT,
        HA + HB + HC + "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\ncvt.f32.f16 %f3, %h3;\n"
        "add.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f4, %f4, %f3;\ncvt.rn.f16.f32 %h9, %f4;\n" + HOUT),
}

_EDGE32 = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
           0xFF800000, 0x7FC00000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3EAAAAAB,
           0x40490FDB, 0x7E800001, 0xC0000003, 0x33800001]
_EDGE16 = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001,
           0x03FF, 0x0400, 0x3555, 0x4248, 0x77FF, 0xC003, 0x1001]


def _edges(values: list[int], draw: int, stride: int) -> np.ndarray:
    """256 elements; operands lie `stride` elements apart, combinations walk with the draw."""
    rng = np.random.default_rng(draw)
    out = rng.choice(np.array(values, dtype=np.uint64), 256)
    if draw < 6:  # all pairs of the first operands, in order
        pairs = list(itertools.product(values, values))[draw * 64 : draw * 64 + 64]
        for i, (a, b) in enumerate(pairs):
            step = stride // 64
            out[step * i], out[stride + step * i] = a, b
    elif draw % 2:
        top = 8 * (4 if values is _EDGE32 else 2)
        out = rng.integers(0, 1 << top, 256, dtype=np.uint64)
        if values is _EDGE32:  # moderate exponents: sums that round
            exponent = rng.integers(118, 136, 256, dtype=np.uint64)
            out = (out & np.uint64(0x807FFFFF)) | exponent << np.uint64(23)
        else:
            exponent = rng.integers(8, 22, 256, dtype=np.uint64)
            out = (out & np.uint64(0x83FF)) | exponent << np.uint64(10)
    if values is _EDGE16:  # 99 * 331 = 2^15 + 1: a product that f32 rounds to a tie of f16
        out[0], out[128], out[1] = 0x2230, 0x292C, 0x3C00
    return out


def _same_bytes(one: str, two: str, dtype: str, out: str) -> bool:
    """Whether the bytes agree on all edge draws (NaN payloads aside)."""
    raw = {"f32": np.uint32}.get(out, np.uint16)
    for draw in range(16):
        x = _edges(_EDGE32 if dtype == "f32" else _EDGE16, draw, 64 if dtype == "f32" else 128)
        inputs = {"x": x, "y": np.zeros(256, dtype=np.uint64)}
        a, b = (run(t, domain="bytes", dtype=dtype, out=out, inputs=inputs) for t in (one, two))
        assert a.usable
        assert b.usable
        left, right = (canonical_nans(out, r.outputs["y"].words[1].astype(raw)) for r in (a, b))
        if (left != right).any():
            return False
    return True


ALL_EQUAL = {**{k: (*v, "f32", "f32") for k, v in EQUAL.items()},
             **{k: (*v, "f16", "f16") for k, v in HALVES.items()},
             **{k: (*v, "bf16", "f32") for k, v in BF.items()},
             **{f"{k} bf16": (*v, "bf16", "bf16") for k, v in BF_ONLY.items()}}
ALL_DIFFERENT = {**{k: (*v, "f32", "f32") for k, v in DIFFERENT.items()},
                 **{k: (*v, "f16", "f16") for k, v in NARROW_DIFFERENT.items()}}


@pytest.mark.parametrize("name", ALL_EQUAL)
def test_identity_merges_and_is_exact_on_edge_values(name: str) -> None:
    one, two, dtype, out = ALL_EQUAL[name]
    a, b = run(one, dtype=dtype, out=out), run(two, dtype=dtype, out=out)
    assert a.usable
    assert first_difference(a, b) is None
    assert a.digest == b.digest
    assert _same_bytes(one, two, dtype, out)


@pytest.mark.parametrize("name", ALL_DIFFERENT)
def test_near_miss_keeps_two_maps_and_really_differs(name: str) -> None:
    one, two, dtype, out = ALL_DIFFERENT[name]
    a, b = run(one, dtype=dtype, out=out), run(two, dtype=dtype, out=out)
    assert first_difference(a, b) is not None
    assert a.digest != b.digest
    assert not _same_bytes(one, two, dtype, out)


def test_every_identity_of_the_table_has_a_test() -> None:
    elsewhere = {"mma-zero-products", "mma-step", "mma-null-step", "mma-in-range"}  # test_matrix
    assert set(IDENTITIES) - elsewhere <= set(ALL_EQUAL)
