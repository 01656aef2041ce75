"""Prometheus plumbing: a registry per process, shared buckets, and the text that a scrape gets.

Each service lists its collectors in its own `metrics.py`, one dataclass that takes the registry.
"""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, exposition

from conch_kit.metric_families import CounterFamily

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds; from a call inside a node to a long prefill."""
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds; a whole request."""


def registry() -> CollectorRegistry:
    """Return a new registry that already reports on the process itself."""
    new = CollectorRegistry()
    ProcessCollector(registry=new)
    PlatformCollector(registry=new)
    GCCollector(registry=new)
    return new


def outcomes(name: str, registry: CollectorRegistry) -> CounterFamily:
    """Return the counter of this name for the requests of a worker, by how they ended."""
    said = "Requests by outcome: ok, client_gone, or the status of the error."
    return CounterFamily(name, said, ("outcome",), registry)


def render(registry: CollectorRegistry) -> tuple[bytes, str]:
    """Return the registry as Prometheus text, and its content type."""
    return exposition.generate_latest(registry), exposition.CONTENT_TYPE_LATEST
