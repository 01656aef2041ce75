"""The agent's HTTP interface, raw ASGI.

GET  /source      what the model's folder says            asked by the operator
GET  /bundle      the tokenizer bundle                    asked by the operator
GET  /withdrawn   answers when the engine may end         asked by the kubelet, as the engine's preStop hook
POST /withdrawn   the engine may end                      told by the operator, when no gateway uses it any more
GET  /livez       whether the agent runs

The hold in GET /withdrawn has an end, so an engine can always be stopped without an operator.
"""

import asyncio
from contextlib import suppress

from conch_kit.asgi import ASGIApp, Receive, Scope, Send, respond
from conch_kit.bundles import BundleError
from conch_operator.agent import report
from conch_operator.agent.folder import Folder

_JSON = [(b"content-type", b"application/json")]
_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_BYTES = [(b"content-type", b"application/zstd")]


def make_app(folder: Folder, longest_hold_s: float) -> ASGIApp:
    """Return the app."""
    released = asyncio.Event()

    async def answer(method: str, path: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        match method, path:
            case "GET", report.LIVE_PATH:
                return 200, b"ok\n", _TEXT
            case "GET", report.SOURCE_PATH:
                return 200, (await folder.report()).model_dump_json().encode(), _JSON
            case "GET", report.BUNDLE_PATH:
                digest, data = await folder.bundle()
                return 200, data, [*_BYTES, (b"x-conch-digest", digest.encode())]
            case "GET", report.WITHDRAWN_PATH:
                with suppress(TimeoutError):
                    await asyncio.wait_for(released.wait(), longest_hold_s)
                return 200, b"the engine may end\n", _TEXT
            case "POST", report.WITHDRAWN_PATH:
                released.set()
                return 200, b"ok\n", _TEXT
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
