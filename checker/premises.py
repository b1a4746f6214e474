"""What a verdict assumes: one row per premise code, with the sentence shown to people.

In: a short code out of `Signature.premises` or `Verdict.premises`. Out: one sentence. A code may
carry a detail after a colon (`matrix-model:sm_90`), which the sentence is followed by. A code
without a row is shown as it stands; nothing that was assumed is ever left out.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PREMISES", "explain"]

PREMISES: Mapping[str, str] = {
    "approx-unit": "an approximate function returns the same bits on every chip with the same "
    "unit",
    "assembler": "the assembler below this text changes no rounding",
    "coverage": "both launches write the same elements: each grid is large enough for its "
    "kernel",
    "contraction": "the assembler below PTX fuses a contractable multiply and add by its measured "
    "rule",
    "finite": "no infinity and no NaN occurs where a masked value is multiplied away",
    "grid-covers": "both launches write the same elements: each grid is large enough for its "
    "kernel",
    "launch": "the verdict holds for the given launch only",
    "matrix-model": "matrix steps add in the order measured for this target",
    "nan-payload": "two NaNs count as the same value whatever their payload",
    "no-alias": "buffers passed as different pointer arguments do not overlap",
    "noalias": "buffers passed as different pointer arguments do not overlap",
    "no-overflow": "index arithmetic does not overflow where it is widened afterwards",
    "race-free": "no two threads of different blocks touch the same bytes, one of them writing",
}


def explain(code: str) -> str:
    """Return the sentence for a premise code; an unknown code gives an empty sentence."""
    name, _, detail = code.partition(":")
    sentence = PREMISES.get(code) or PREMISES.get(name, "")
    return f"{sentence} ({detail})" if sentence and detail and code not in PREMISES else sentence
