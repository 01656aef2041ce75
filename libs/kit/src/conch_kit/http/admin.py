"""The admin app of a service: is it alive, may it get requests, and its metrics. Raw ASGI, on a port of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from conch_kit import metrics as exposition
from conch_kit.http.asgi import ASGIApp, Receive, Scope, Send, respond

_TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Health:
    """What a process says of itself when it is asked."""

    live: Callable[[], bool]
    """False asks for a restart."""
    ready: Callable[[], str | None]
    """None when requests may come, else the reason why not."""


def admin_app(health: Health, registry: CollectorRegistry, not_ready: Callable[[], str | None]) -> ASGIApp:
    """Return the app; `not_ready` gives the life cycle's own reason, which comes before the service's."""

    def answer(path: str) -> tuple[int, bytes, bytes]:
        match path:
            case "/livez":
                return (200, b"ok\n", _TEXT) if health.live() else (503, b"not live\n", _TEXT)
            case "/readyz":
                reason = not_ready() or health.ready()
                return (200, b"ok\n", _TEXT) if reason is None else (503, f"{reason}\n".encode(), _TEXT)
            case "/metrics":
                body, content_type = exposition.render(registry)
                return 200, body, content_type.encode()
            case _:
                return 404, b"not found\n", _TEXT

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        status, body, content_type = answer(scope["path"])
        await respond(send, status, b"" if scope["method"] == "HEAD" else body, [(b"content-type", content_type)])

    return app
