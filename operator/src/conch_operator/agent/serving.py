"""Serves an agent's app for as long as the kubelet lets its process live."""

import asyncio
import signal
from contextlib import suppress

from conch_kit.http.asgi import ASGIApp
from conch_kit.http_server.bound_socket import bound
from conch_kit.http_server.server import HttpServer
from conch_operator.agent.settings import AgentSettings

_LAST_ANSWERS_S = 1.0
"""How long answers that are under way may take at the end."""


async def serve_until_told(app: ASGIApp, settings: AgentSettings) -> None:
    """Serve until SIGTERM, which the kubelet sends after the engine has ended."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    loop.add_signal_handler(signal.SIGINT, told.set)
    server = HttpServer(app)
    with bound(settings.host, settings.port) as listener:
        async with server.serving(listener):
            await told.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ANSWERS_S):
                    await server.finish()
