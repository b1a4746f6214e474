"""Launch replay: run a kernel on the CPU with concrete indices and compare what it writes.

In: `Program`, launch facts. Out: `ReplayResult`: output map of tree hashes (domain `trees`) or of
bits (domain `bytes`), findings, and why a kernel could not be run. Nothing is guessed.
"""

from __future__ import annotations

from checker.replay.result import Difference, Output, ReplayResult, first_difference
from checker.replay.run import replay

__all__ = ["Difference", "Output", "ReplayResult", "first_difference", "replay"]
