"""The agent's HTTP interface, raw ASGI.

GET  /source      what the model's folder says            the operator asks, with the agent's token
GET  /bundle      the tokenizer bundle                    the operator asks, likewise
GET  /withdrawn   answers when the engine may end         the kubelet asks, as the engine's preStop hook
POST /withdrawn   lets the engine end                     the operator says so, when no gateway uses it any more
POST /condemned   has the engine started again            the operator says so, when it has stopped answering
GET  /livez       whether the agent runs                  the kubelet asks, as the agent's own probe

The kubelet has no token, so what it asks is open: it changes nothing and tells no more than that the engine may end.
GET /withdrawn answers after a while in any case, so an engine can always be stopped without an operator.
"""

import asyncio
import hmac
from collections.abc import Callable

from conch_contracts.names import Digest
from conch_kit.bundles.archive import BundleError
from conch_kit.http.asgi import ASGIApp, Receive, Scope, Send, respond
from conch_operator.agent import messages
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.termination import EngineTermination
from conch_operator.agent.tokens import token_sha256

LONGEST_READ_S = 90.0
"""How long an answer about a folder may take; an operator waits for less."""
DISK_HANGS = b"The folder cannot be read in time: see whether its disk answers.\n"
_NO_SERVER = b"No process of this pod is called tritonserver, or it is another user's: none was ended.\n"
_BEARER = b"Bearer "
_NO_TOKEN = b"Only the operator may ask this. Its token is missing or wrong; send it as Authorization: Bearer.\n"
_JSON = [(b"content-type", b"application/json")]
_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_BYTES = [(b"content-type", b"application/zstd")]


def make_app(
    folder: FolderReporter | None,
    termination: EngineTermination,
    token_hash: str,
    restart: Callable[[], bool] | None = None,
) -> ASGIApp:
    """Return the app; `folder` is None for an agent of no single one.

    `token_hash`: the SHA-256 of the operator's token; `restart` has the engine started again and returns whether there
    is one; None where that is told otherwise.
    """

    async def answer(method: str, path: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        match method, path:
            case "GET", messages.LIVE_PATH:
                return 200, b"ok\n", _TEXT
            case "GET", messages.SOURCE_PATH if folder is not None:
                async with asyncio.timeout(LONGEST_READ_S):
                    return 200, (await folder.report()).model_dump_json().encode(), _JSON
            case "GET", messages.BUNDLE_PATH if folder is not None:
                async with asyncio.timeout(LONGEST_READ_S):
                    digest, data = await folder.bundle()
                return 200, data, bundle_headers(digest)
            case "GET", messages.WITHDRAWN_PATH:
                await termination.wait_until_allowed()
                return 200, b"the engine may end\n", _TEXT
            case "POST", messages.WITHDRAWN_PATH:
                termination.allow()
                return 200, b"ok\n", _TEXT
            case "POST", messages.RESTART_PATH if restart is not None:
                return (200, b"ok\n", _TEXT) if restart() else (409, _NO_SERVER, _TEXT)
            case _:
                return 404, b"not found\n", _TEXT

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if _is_operators(scope) and not is_trusted(scope, token_hash):
            await refuse(send)
            return
        try:
            status, body, headers = await answer(scope["method"], scope["path"])
        except BundleError as error:
            status, body, headers = 409, f"{error}\n".encode(), _TEXT
        except TimeoutError:
            status, body, headers = 503, DISK_HANGS, _TEXT
        await respond(send, status, body, headers)

    return app


def _is_operators(scope: Scope) -> bool:
    """Return whether a request is the operator's to make."""
    return scope["method"] == "POST" or scope["path"] in (messages.SOURCE_PATH, messages.BUNDLE_PATH)


def bundle_headers(digest: Digest) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer that is a tokenizer bundle."""
    return [*_BYTES, (b"x-conch-digest", digest.encode())]


def is_trusted(scope: Scope, token_hash: str) -> bool:
    """Return whether a request bears the operator's token."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1 or not given[0].startswith(_BEARER):
        return False
    return hmac.compare_digest(token_sha256(given[0].removeprefix(_BEARER)), token_hash)


async def refuse(send: Send) -> None:
    """Answer that a request bears no token, or a wrong one."""
    await respond(send, 401, _NO_TOKEN, [*_TEXT, (b"www-authenticate", b"Bearer")])
