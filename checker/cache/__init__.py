"""Answers kept on disk, and kernels examined behind them, in worker processes if need be."""

from checker.cache.defects import Defect, Reported, defects
from checker.cache.examine import Examiner, default_jobs, partition
from checker.cache.store import Cache, default_path, open_default, signature_from_json

__all__ = [
    "Cache", "Defect", "Examiner", "Reported", "default_jobs", "default_path", "defects",
    "open_default", "partition", "signature_from_json",
]
