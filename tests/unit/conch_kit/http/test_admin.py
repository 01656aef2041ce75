import pytest

from conch_kit import metrics
from conch_kit.http.admin import Health, admin_app
from testkit.http.asgi import call


@pytest.mark.parametrize(
    ("path", "live", "draining", "ready", "status", "body"),
    [
        ("/livez", True, None, None, 200, b"ok\n"),
        ("/livez", True, "draining", "no routes", 200, b"ok\n"),
        ("/livez", False, None, None, 503, b"not live\n"),
        ("/readyz", True, None, None, 200, b"ok\n"),
        ("/readyz", True, None, "no routes", 503, b"no routes\n"),
        ("/readyz", True, "draining", None, 503, b"draining\n"),
        ("/other", True, None, None, 404, b"not found\n"),
    ],
)
async def test_health_is_what_the_process_says_of_itself(
    path: str, live: bool, draining: str | None, ready: str | None, status: int, body: bytes
) -> None:
    app = admin_app(Health(lambda: live, lambda: ready), metrics.registry(), lambda: draining)
    answer = await call(app, path, method="GET")
    assert (answer.status, answer.body) == (status, body)


async def test_metrics_are_prometheus_text() -> None:
    app = admin_app(Health(lambda: True, lambda: None), metrics.registry(), lambda: None)
    answer = await call(app, "/metrics", method="GET")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"process_cpu_seconds_total" in answer.body
