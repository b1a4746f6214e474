"""AMDGCN rows, one module per chapter; importing the package registers all of them."""

from checker.gcn.rows import (  # noqa: F401
    compare,
    control,
    convert,
    float,
    integer,
    lanes,
    matrix,
    memory,
    packed,
    scalar,
)
