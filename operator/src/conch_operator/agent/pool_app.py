"""The HTTP interface of the agent in the pod of an EnginePool, raw ASGI; the operator asks, with the agent's token.

POST /models         what is to be in the server; answers what is in it
POST /models/report  what is in the server; waits a while for news
POST /folder         what the folder of a model says
POST /folder/bundle  its tokenizer bundle

What the kubelet asks is the same as of every agent (`app`).
"""

import asyncio

from pydantic import ValidationError

from conch_kit.bundles.archive import BundleError
from conch_kit.errors import BodyTooLarge
from conch_kit.http.asgi import ASGIApp, ClientGone, Receive, Scope, Send, read_body, respond
from conch_operator.agent import pool_messages as messages
from conch_operator.agent.app import DISK_HANGS, LONGEST_READ_S, bundle_headers, is_trusted, refuse
from conch_operator.agent.pool_folders import PoolFolders
from conch_operator.agent.pool_models import PoolModels

_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_JSON = [(b"content-type", b"application/json")]
_ANSWERED = (
    messages.MODELS_PATH,
    messages.REPORT_PATH,
    messages.FOLDER_PATH,
    messages.FOLDER_BUNDLE_PATH,
)


def make_pool_app(models: PoolModels, folders: PoolFolders, token_hash: str, others: ASGIApp) -> ASGIApp:
    """Return the app; `token_hash`: the SHA-256 of the operator's token; `others` answers everything else."""

    async def answer(path: str, body: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        if path == messages.MODELS_PATH:
            models.obey(messages.PoolOrder.model_validate_json(body))
            return models.report().model_dump_json().encode(), _JSON
        if path == messages.REPORT_PATH:
            asked = messages.PoolQuestion.model_validate_json(body)
            return (await models.news(asked)).model_dump_json().encode(), _JSON
        folder = messages.FolderQuestion.model_validate_json(body)
        async with asyncio.timeout(LONGEST_READ_S):
            if path == messages.FOLDER_PATH:
                return (await folders.report(folder)).model_dump_json().encode(), _JSON
            digest, data = await folders.bundle(folder)
        return data, bundle_headers(digest)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or scope["path"] not in _ANSWERED:
            await others(scope, receive, send)
            return
        if not is_trusted(scope, token_hash):
            await refuse(send)
            return
        try:
            body = await read_body(receive, messages.MAX_QUESTION_BYTES)
            answered, headers = await answer(scope["path"], body)
        except ClientGone:
            return
        except BodyTooLarge as error:
            await respond(send, 413, f"{error}\n".encode(), _TEXT)
        except ValidationError as error:
            await respond(send, 400, f"{error}\n".encode(), _TEXT)
        except BundleError as error:
            await respond(send, 409, f"{error}\n".encode(), _TEXT)
        except TimeoutError:
            await respond(send, 503, DISK_HANGS, _TEXT)
        else:
            await respond(send, 200, answered, headers)

    return app
