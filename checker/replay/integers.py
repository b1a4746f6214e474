"""Integer core operations over values, from the modules that know them.

Importing this module fills the table of handlers: use `int_op` from here.
"""

from __future__ import annotations

from checker.replay.bitwise import partwise
from checker.replay.sums import bounded_form, form, isum, magnitude_bound, sum_terms
from checker.replay.symbolic import DIVISIONS, int_op, result_width, select

__all__ = [
    "DIVISIONS", "bounded_form", "form", "int_op", "isum", "magnitude_bound", "partwise",
    "result_width", "select", "sum_terms",
]
