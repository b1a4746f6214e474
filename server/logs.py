"""Structured logs: one JSON object a line on standard error, without bodies, tokens or headers."""

from __future__ import annotations

import json
import logging
import sys
import time

__all__ = ["set_up_logs"]


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON; `extra={"fields": {...}}` is merged in."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower(),
                "logger": record.name, "message": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(level: str = "info") -> None:
    """Send the service's and uvicorn's logs through the formatter."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name in ("samebits", "uvicorn", "uvicorn.error", "alembic"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name in ("samebits", "uvicorn") else []
        logger.propagate = name not in ("samebits", "uvicorn")
        logger.setLevel(level.upper() if name != "alembic" else logging.WARNING)
