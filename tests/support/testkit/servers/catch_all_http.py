"""An HTTP server that answers every path in the same way, as a proxy does."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

_MAX_BODY_BYTES = 64 * 1024 * 1024


@asynccontextmanager
async def every_path(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, which is given."""
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
