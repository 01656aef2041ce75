"""The agent's HTTP interface, raw ASGI.

GET  /source      what the model's folder says            the operator asks
GET  /bundle      the tokenizer bundle                    the operator asks
GET  /withdrawn   answers when the engine may end         the kubelet asks, as the engine's preStop hook
POST /withdrawn   lets the engine end                     the operator says so, when no gateway uses it any more
POST /condemned   has the engine started again            the operator says so, when it has stopped answering
GET  /engine      whether the engine lives                the kubelet asks, as the engine's liveness probe
GET  /livez       whether the agent runs                  the kubelet asks, as the agent's own probe

GET /withdrawn answers after a while in any case, so an engine can always be stopped without an operator.
"""

import asyncio
from contextlib import suppress

from conch_contracts.names import TRITON_HTTP_PORT
from conch_kit.bundles.archive import BundleError
from conch_kit.http.asgi import ASGIApp, Receive, Scope, Send, respond
from conch_operator.agent import messages
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.termination import EngineTermination

_ENGINE_S = 4.0
_JSON = [(b"content-type", b"application/json")]
_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_BYTES = [(b"content-type", b"application/zstd")]


def make_app(folder: FolderReporter, termination: EngineTermination, engine_port: int = TRITON_HTTP_PORT) -> ASGIApp:
    """Return the app."""

    async def answer(method: str, path: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        match method, path:
            case "GET", messages.LIVE_PATH:
                return 200, b"ok\n", _TEXT
            case "GET", messages.SOURCE_PATH:
                return 200, (await folder.report()).model_dump_json().encode(), _JSON
            case "GET", messages.BUNDLE_PATH:
                digest, data = await folder.bundle()
                return 200, data, [*_BYTES, (b"x-conch-digest", digest.encode())]
            case "GET", messages.WITHDRAWN_PATH:
                await termination.wait_until_allowed()
                return 200, b"the engine may end\n", _TEXT
            case "POST", messages.WITHDRAWN_PATH:
                termination.allow()
                return 200, b"ok\n", _TEXT
            case "POST", messages.RESTART_PATH:
                termination.request_restart()
                return 200, b"ok\n", _TEXT
            case "GET", messages.ENGINE_PATH:
                if termination.must_restart:
                    return 503, b"the engine does not answer requests any more\n", _TEXT
                return await _engine_lives(engine_port)
            case _:
                return 404, b"not found\n", _TEXT

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, body, headers = await answer(scope["method"], scope["path"])
        except BundleError as error:
            status, body, headers = 409, f"{error}\n".encode(), _TEXT
        await respond(send, status, body, headers)

    return app


async def _engine_lives(port: int) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Ask Triton itself; it refuses connections while it ends, and answers 200 for a model that could not be loaded."""
    try:
        async with asyncio.timeout(_ENGINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
                line = await reader.readline()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        return 503, f"Triton does not answer: {str(error) or type(error).__name__}\n".encode(), _TEXT
    return (200, b"ok\n", _TEXT) if b" 200 " in line else (503, b"Triton is not live\n", _TEXT)
