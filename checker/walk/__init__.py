"""The static engine: `walk(program)` without launch facts."""

from checker.walk.run import walk

__all__ = ["walk"]
