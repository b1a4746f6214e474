"""The draws of a truth run: the generator is the checker's own, the list is the corpus's.

`DRAWS` names the draws that the committed digests were made with; `checker.draws` makes them, the
same on every machine. Kinds added there since (`edge`, `spikes`) are for witnesses.
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
    ("huge", 3), ("normal", 4),
)
