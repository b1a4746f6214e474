"""The draws of a truth run: the generator is the checker's own, the list is the corpus's.

`DRAWS` names the draws of a truth run; `checker.draws` makes them, the same on every machine. The
committed digests were made with the first so many of them (`about.json`); new ones come last.
"""

from checker.draws import (
    FORMATS,
    KINDS,
    RAW,
    Bits,
    canonical_nans,
    draw,
    indices,
    mix,
    round_to,
    words,
)

__all__ = ["DRAWS", "FORMATS", "KINDS", "RAW", "Bits", "canonical_nans", "draw", "indices", "mix",
           "round_to", "words"]

#: the standard draws of a truth run
DRAWS: tuple[tuple[str, int], ...] = (
    ("normal", 1), ("normal", 2), ("normal", 3), ("cancel", 1), ("cancel", 2), ("cancel", 3),
    ("cancel", 4), ("wide", 1), ("wide", 2), ("wide", 3), ("sparse", 1), ("sparse", 2),
    ("tiny", 1), ("tiny", 2), ("special", 1), ("special", 2), ("huge", 1), ("huge", 2),
    ("huge", 3), ("normal", 4), ("edge", 1), ("edge", 2), ("spikes", 1), ("spikes", 2), ("span", 1),
    ("level", 1),
)
