"""Prometheus metrics of one server process.

In: events, by method call. Out: `Metrics.render`, the text for `/metrics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MAX_OPCODES = 500


class Metrics:
    """Counters on a registry of their own, so that several applications fit in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "samebits_requests", "HTTP requests", ["method", "route", "status"], registry=r)
        self.latency = Histogram(
            "samebits_request_seconds", "Time to answer a request", ["route"],
            buckets=_BUCKETS, registry=r)
        self.cache = Counter(
            "samebits_cache", "Engine calls by where the answer came from", ["kind", "source"],
            registry=r)
        self.calls = Histogram(
            "samebits_call_seconds", "Time of an engine call, waiting included", ["kind"],
            buckets=_BUCKETS, registry=r)
        self.verdicts = Counter("samebits_verdicts", "Verdicts by kind", ["kind"], registry=r)
        self.opaque = Counter(
            "samebits_opaque_opcodes", "Opaque constructs seen, by opcode", ["opcode"], registry=r)
        self.failures = Counter(
            "samebits_call_failures", "Engine calls without an answer", ["kind", "why"],
            registry=r)
        self.restarts = Counter(
            "samebits_worker_restarts", "Worker processes replaced", ["why"], registry=r)
        self.jobs = Counter("samebits_jobs", "Jobs that ended, by state", ["state"], registry=r)
        self._opcodes: set[str] = set()

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge that is read when metrics are asked for."""
        Gauge(f"samebits_{name}", text, registry=self.registry).set_function(read)

    def signature(self, signature: dict[str, Any]) -> None:
        """Count the opaque constructs of a fresh signature."""
        for construct in signature.get("opaque", ()):
            opcode = str(construct.get("opcode", ""))[:64]
            if opcode not in self._opcodes:
                if len(self._opcodes) >= _MAX_OPCODES:
                    opcode = "other"
                self._opcodes.add(opcode)
            self.opaque.labels(opcode).inc()

    def render(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self.registry)
