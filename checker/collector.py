"""The interpreter's cycle collector, paused while one kernel is walked or replayed.

Reading a kernel and running it makes hundreds of thousands of small objects that die by their
reference count; looking through them, and through whatever else is loaded, again and again took a
sixth of the time. The few that are left in cycles go with the first collection afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection of cycles inside; who found the collector on turns it on again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
