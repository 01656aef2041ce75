from prometheus_client import Counter

from conch_kit import metrics


def test_a_scrape_shows_the_process_and_the_services_own_counters() -> None:
    registry = metrics.registry()
    Counter("conch_things_total", "Things.", registry=registry).inc(3)
    body, content_type = metrics.render(registry)
    assert b"conch_things_total 3.0" in body
    assert b"process_resident_memory_bytes" in body
    assert content_type.startswith("text/plain")
