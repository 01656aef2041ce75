from prometheus_client import CollectorRegistry

from conch_kit import metrics
from conch_kit.redis.client import RedisClient
from conch_kit.registry.metrics import RegistryCollector
from conch_kit.registry.snapshot_refresh import RegistryReader


async def test_a_scrape_tells_what_the_copy_is_worth() -> None:
    redis = RedisClient("redis://127.0.0.1:1")
    registry = CollectorRegistry()
    registry.register(RegistryCollector(RegistryReader(redis), redis))
    text = metrics.render(registry)[0].decode()
    for line in (
        "conch_registry_available 1.0",
        "conch_registry_revision 0.0",
        "conch_registry_routes 0.0",
        "conch_registry_ignored_values_total 0.0",
    ):
        assert line in text.splitlines()
