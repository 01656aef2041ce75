"""The Kubernetes API in the few calls that the operator makes; it and `configuration` alone know the client library.

Objects go in and come out as JSON. Every call has a deadline, a watch one for silence. A busy server (429) is obeyed
and asked again; everything else that fails is an ApiError, and what it means is for the caller to say. Writes pass a
guard first, so that an operator that has lost its Lease cannot write. A write that has failed, or got no answer, fails
the same way without being sent until its time comes, so that no caller can make a hot loop of it.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp
import orjson
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.rest import RESTResponse

from conch_contracts.names import OPERATOR
from conch_operator.kubernetes.api.backoff import Attempts
from conch_operator.kubernetes.api.configuration import read_configuration
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.api.object_selection import Event, Listed, ObjectSelection

log = logging.getLogger(__name__)

GRACE_S = 30.0
"""After a start: rights may come a little later than the process that needs them."""
TIMEOUT_S = 5.0
"""Of one call; with the time for which a Lease may be overdue, less than others wait before they take it."""
PAGE = 500
BUSY = 429
_SILENT = 504
"""The status of a watch that says nothing: it cannot be trusted to have told everything."""
ENDS_AFTER = 0.8
"""The API server is asked to end a watch after this part of the time for which it may be silent; it sends a bookmark
before it does."""
_PATCHES = {"fieldManager": OPERATOR, "fieldValidation": "Ignore"}
"""Unknown fields are left out in silence: to warn of them, which nobody reads, the server parses a patch twice."""
_ATTEMPTS = 4
_LONGEST_PAUSE_S = 10.0
_MOMENT = re.compile(rb'"(lastTransitionTime|eventTime)":"[^"]*"')
"""What differs between two attempts at one and the same write."""


class ApiError(Exception):
    """A call that failed; `status` is 0 when no answer came."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def answered(self) -> bool:
        """Return whether the server answered about this one call: others need not fail too."""
        return self.status not in (0, 401, BUSY)


class NotLeading(Exception):
    """A write that came after this process lost its Lease."""


class KubernetesApi:
    """One connection pool to one API server."""

    def __init__(self, may_write: Callable[[], bool] = lambda: True, attempts: Attempts | None = None) -> None:
        self._may_write = may_write
        self._attempts = attempts
        self._client: ApiClient | None = None
        self._began = time.monotonic()
        self._listed: dict[ObjectSelection, list[Object]] = {}
        """The last lists of single namespaces."""
        self._unlisted: set[str] = set()

    async def __aenter__(self) -> Self:
        self._client = ApiClient(await read_configuration())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]

    async def list_all(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return every object of a kind: a complete list, or an ApiError."""
        return (await self._list(ObjectSelection(kind, namespace, labels, metadata_only), fields)).items

    async def list_selected(self, selection: ObjectSelection) -> Listed:
        """Return a complete list with its version; raises ApiError."""
        return await self._list(selection, None)

    async def _list(self, selection: ObjectSelection, fields: str | None) -> Listed:
        found: list[Object] = []
        query = {"limit": str(PAGE)} | selection.query | ({"fieldSelector": fields} if fields else {})
        while True:
            page = await self._call("GET", selection.path, query=query, headers=selection.headers(watch=False))
            found += page["items"] or []  # an empty list of metadata has null
            if not (token := page["metadata"].get("continue")):
                return Listed(found, page["metadata"].get("resourceVersion", ""))
            query["continue"] = token

    @asynccontextmanager
    async def watch(
        self, selection: ObjectSelection, since: str, silent_s: float
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Open a watch and give what it says, until the server ends it, which it does in time.

        Raises ApiError, also while it is read: with 410 where the server does not know this version any more, and where
        nothing at all comes for `silent_s`.
        """
        query = selection.query | {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        query |= {"timeoutSeconds": str(max(1, int(silent_s * ENDS_AFTER)))}
        limits = aiohttp.ClientTimeout(total=None, sock_read=silent_s)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                opened = await self._open("GET", selection.path, None, query, selection.headers(watch=True), limits)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error
        try:
            if opened.status != 200:
                raise ApiError(opened.status, _message(await _text(opened)))
            yield _events(opened)
        finally:
            opened.response.close()

    async def list_watched(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        """Return every object of a kind in a watched namespace, or everywhere, as `list_all` does.

        Of one that may not be listed any more, which is so when it was deleted, it is the list of before: the others do
        not wait for it. Where there is none of before, it is empty after `GRACE_S`.
        """
        selection = ObjectSelection(kind, namespace, labels, metadata_only)
        try:
            found = await self._complete(selection)
        except ApiError as error:
            early = selection not in self._listed and time.monotonic() - self._began < GRACE_S
            if namespace is None or error.status not in (403, 404) or early:
                raise
            self._note_unlisted(namespace, error)
            return self._listed.get(selection, [])
        if namespace is not None:
            self._listed[selection] = found
        return found

    async def _complete(self, selection: ObjectSelection) -> list[Object]:
        """Return a complete list."""
        return await self.list_all(
            selection.kind, selection.namespace, labels=selection.labels, metadata_only=selection.metadata_only
        )

    def _note_unlisted(self, namespace: str, error: ApiError) -> None:
        """Log once that a namespace is left out."""
        if namespace not in self._unlisted:
            self._unlisted.add(namespace)
            log.error(
                "A namespace may not be read, so its models stay as they are. If it is gone, take it out of "
                "operator.watchNamespaces.",
                extra={"namespace": namespace, "error": str(error)},
            )

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return one object; None when there is none."""
        try:
            return await self._call("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def apply(self, kind: Kind, made: Object) -> Object:
        """Make an object be as described, in the fields that we describe (server-side apply)."""
        meta = made["metadata"]
        headers = {"Content-Type": "application/apply-patch+yaml"}
        query = {**_PATCHES, "force": "true"}
        return await self._write("PATCH", kind.path(meta["namespace"], meta["name"]), made, query, headers)

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str = "") -> Object:
        """Change fields of an object or of a subresource (JSON merge patch)."""
        headers = {"Content-Type": "application/merge-patch+json"}
        path = kind.path(namespace, name, subresource)
        return await self._write("PATCH", path, change, _PATCHES, headers)

    async def patch_list(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        """Change fields of a subresource, lists by their keys (strategic merge patch)."""
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        path = kind.path(namespace, name, subresource)
        return await self._write("PATCH", path, change, _PATCHES, headers)

    async def reset(self, kind: Kind, made: Object) -> Object:
        """Throw away what an existing object holds beside its metadata, and put what is described in its place."""
        meta = made["metadata"]
        headers = {"Content-Type": "application/json-patch+json"}
        fields = [name for name in made if name not in ("apiVersion", "kind", "metadata")]
        change = [{"op": "add", "path": f"/{name}", "value": made[name]} for name in fields]
        path = kind.path(meta["namespace"], meta["name"])
        return await self._write("PATCH", path, change, _PATCHES, headers)

    async def create(self, kind: Kind, made: Object) -> Object:
        """Make a new object."""
        return await self._write("POST", kind.path(made["metadata"]["namespace"]), made, {}, {})

    async def replace(self, kind: Kind, made: Object) -> Object:
        """Replace an object that has not changed since it was read, by its resourceVersion."""
        meta = made["metadata"]
        return await self._write("PUT", kind.path(meta["namespace"], meta["name"]), made, {}, {})

    async def delete(self, kind: Kind, found: Object) -> None:
        """Delete exactly this object, not a newer one of its name; one that is gone already is no error."""
        meta = found["metadata"]
        body = {"propagationPolicy": "Background", "preconditions": {"uid": meta["uid"]}}
        try:
            await self._write("DELETE", kind.path(meta["namespace"], meta["name"]), body, {}, {})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _write(
        self, method: str, path: str, body: Object | list[Object], query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Object:
        if not self._may_write():
            raise NotLeading(f"{method} {path} was not sent: this process does not hold the Lease any more.")
        answer = await self._send_write(method, path, body, query, headers)
        self._wrote(answer)
        return answer

    def _wrote(self, answer: Object) -> None:
        """Hear what a write has answered."""

    async def _send_write(
        self, method: str, path: str, body: Object | list[Object], query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Object:
        if self._attempts is None:
            return await self._call(method, path, body=body, query=query, headers=headers)
        what = method, path, hash(_MOMENT.sub(b"", orjson.dumps(body, option=orjson.OPT_SORT_KEYS)))
        if (obstacle := self._attempts.obstacle(what)) is not None:
            raise obstacle.with_traceback(None)  # else it would grow with each time
        try:
            answer = await self._call(method, path, body=body, query=query, headers=headers)
        except ApiError as error:
            self._attempts.failed(what, error)
            raise
        self._attempts.succeeded(what)
        return answer

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | list[Object] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        for attempt in range(1, _ATTEMPTS + 1):
            status, text, pause_s = await self._send(method, path, body, query or {}, headers or {})
            if status != BUSY or attempt == _ATTEMPTS:
                break
            await asyncio.sleep(min(pause_s * (1 + random.random() / 2), _LONGEST_PAUSE_S))
        if not 200 <= status < 300:
            raise ApiError(status, _message(text))
        return _object(text)

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> tuple[int, str, float]:
        """Return status, text and how long to wait before trying again."""
        try:
            response = await self._open(method, path, body, query, headers, TIMEOUT_S)
            text = await _text(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error
        pause = response.headers.get("Retry-After", "1")
        return response.status, text, float(pause) if pause.isdigit() else 1.0

    async def _open(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        limits: float | aiohttp.ClientTimeout,
    ) -> RESTResponse:
        """Send a request and return the answer as soon as its head is there; raises what aiohttp raises."""
        assert self._client is not None
        sent = {"Accept": "application/json", "Content-Type": "application/json", **headers}
        request = await self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=sent,
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._client.call_api(*request, _request_timeout=limits)


async def _events(opened: RESTResponse) -> AsyncIterator[Event]:
    """Give what a watch says, line by line; what was cut off in the middle is not said."""
    try:
        while line := await opened.response.content.readline():
            if not line.endswith(b"\n"):
                raise ApiError(0, "a watch was cut off in the middle of an event")
            said = orjson.loads(line)
            event = Event(said["type"], said["object"])
            if event.type == "ERROR":
                raise ApiError(event.object.get("code", 0), str(event.object.get("message", "a watch has failed")))
            yield event
    except (ValueError, KeyError, TypeError) as error:
        raise ApiError(0, f"a watch says what is no event: {error!r}") from error
    except TimeoutError as error:
        raise ApiError(_SILENT, "a watch says nothing, not even a bookmark") from error
    except (aiohttp.ClientError, OSError) as error:
        raise _no_answer(error) from error


async def _text(opened: RESTResponse) -> str:
    content: bytes = await opened.read()  # type: ignore[no-untyped-call]
    return content.decode(errors="replace")


def _object(text: str) -> Object:
    """Return the object that an answer is; a proxy may have cut it, or have written its own."""
    try:
        answer = orjson.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ApiError(0, f"the API server's answer is no JSON object, but begins with {text[:100]!r}")
    return answer


def _no_answer(error: Exception) -> ApiError:
    if isinstance(error, aiohttp.ClientResponseError):  # its text has the proxy's URL, which may hold a password
        return ApiError(0, f"the proxy before the API server answers {error.status} {error.message}")
    return ApiError(0, f"the API server does not answer: {str(error) or type(error).__name__}")


def _message(text: str) -> str:
    try:
        return str(orjson.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
