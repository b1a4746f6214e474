"""AMDGCN rows, one module per chapter; importing the package registers all of them."""

from checker.gcn.rows import (  # noqa: F401
    arithmetic,
    atomics,
    buffer,
    compare,
    control,
    convert,
    float,
    integer,
    lanes,
    lds,
    matrix,
    memory,
    packed,
    scalar,
    scalar_math,
)
