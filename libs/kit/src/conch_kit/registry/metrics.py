"""Shows in a process's metrics what its copy of the registry is worth."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from conch_kit.redis.client import RedisClient
from conch_kit.registry.snapshot_refresh import RegistryReader


class RegistryCollector(Collector):
    """Collects at each scrape; register it with the process's registry."""

    def __init__(self, reader: RegistryReader, redis: RedisClient) -> None:
        self._reader = reader
        self._redis = redis

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this moment."""
        snapshot = self._reader.snapshot
        yield GaugeMetricFamily("conch_registry_available", "1 while Redis answers.", int(self._redis.available))
        yield GaugeMetricFamily("conch_registry_revision", "Revision that is in force here.", snapshot.revision)
        yield GaugeMetricFamily("conch_registry_routes", "Models that are known here.", len(snapshot.routes))
        yield CounterMetricFamily(
            "conch_registry_ignored_values", "Values in Redis that could not be read.", self._reader.ignored
        )
