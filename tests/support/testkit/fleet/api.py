"""The API server of a played cluster: calls that take no program of their own, and what the operator has written."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cluster.local.layout import API, Layout

Object = dict[str, Any]
MODELS = "/apis/conch.dev/v1alpha1/namespaces/{namespace}/modeldeployments"
_AT_ONCE = 8
_TIMEOUT_S = 60
_WATCH_S = 3600


class Api:
    """Calls as the administrator, on one connection for each thread."""

    def __init__(self, layout: Layout) -> None:
        self._context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
        self._context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
        self._own = threading.local()
        self._opened: list[HTTPSConnection] = []

    def close(self) -> None:
        """Close all connections."""
        for connection in self._opened:
            connection.close()

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Object:
        """Make one call; a status that is no success is an AssertionError with what the server says."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._connection(_TIMEOUT_S)
            self._opened.append(connection)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": kind, "Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text[:500]!r}"
        found: Object = json.loads(text)
        return found

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Iterator[Object]]:
        """Give the events of a watch, which begin with what is there."""
        asked = urlencode({"watch": "true", "timeoutSeconds": _WATCH_S, **query})
        with closing(self._connection(_WATCH_S)) as own:
            while (answer := _asked(own, f"{path}?{asked}")).status == HTTPStatus.TOO_MANY_REQUESTS:
                answer.read()
                time.sleep(int(answer.headers["Retry-After"]))  # of a kind that it has just learned
            assert answer.status == HTTPStatus.OK, answer.read()
            yield map(json.loads, answer)

    def moment_of(self, path: str, what: Callable[[Object], bool], **query: str) -> float:
        """Watch until an object is as asked; return that moment, of `time.perf_counter`."""
        with self.watch(path, **query) as events:
            for event in events:
                if what(event["object"]):
                    return time.perf_counter()
        raise AssertionError(f"{path}: the watch has ended")

    def _connection(self, timeout_s: float) -> HTTPSConnection:
        address = urlsplit(API)
        assert address.hostname is not None
        return HTTPSConnection(address.hostname, address.port, context=self._context, timeout=timeout_s)

    def create_all(self, path: str, objects: Sequence[Object]) -> None:
        """Make these objects, several at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda made: self.call("POST", path, made), objects))

    def merge(self, path: str, change: Object) -> Object:
        """Change an object by a merge patch."""
        return self.call("PATCH", path, change, "application/merge-patch+json")


def _asked(connection: HTTPSConnection, path: str) -> HTTPResponse:
    connection.request("GET", path, headers={"Accept": "application/json"})
    return connection.getresponse()


@dataclass(frozen=True, slots=True)
class Write:
    """One write of the operator."""

    verb: str
    resource: str
    name: str
    at_s: float
    """When the API server received it, in Unix seconds."""
    status: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What one account has written, as the API server itself notes it."""

    folder: Path
    account: str

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options that have the API server keep the notes."""
        writes = {"level": "Metadata", "users": [self.account], "verbs": ["create", "update", "patch", "delete"]}
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [writes, {"level": "None"}],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "policy.json"
        file.write_text(json.dumps(policy))
        return f"--audit-policy-file={file}", f"--audit-log-path={self._log}"

    def writes(self) -> Iterator[Write]:
        """Give all writes but those to the operator's Lease."""
        if not self._log.exists():
            return
        for line in self._log.read_text().splitlines():
            said = json.loads(line)
            place = said["objectRef"]
            if place["resource"] == "leases":
                continue
            resource = f"{place['resource']}/{place['subresource']}" if "subresource" in place else place["resource"]
            at_s = datetime.fromisoformat(said["requestReceivedTimestamp"]).timestamp()
            yield Write(said["verb"], resource, place.get("name", ""), at_s, said["responseStatus"]["code"])

    @property
    def _log(self) -> Path:
        return self.folder / "audit.log"
