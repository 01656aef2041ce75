"""A proxy in front of a real API server, for one client.

It notes every call, fails those that a test picks, and can keep to itself what watches tell. It runs in a thread of its
own, so that a test may block while its operator works.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config
from yarl import URL

from testkit.servers.catch_all_http import every_path
from testkit.threads import in_thread

Rule = Callable[[str, str], int | None]
"""From method and path to the status that the call is failed with; None lets it through."""
NO_ANSWER = 0
"""The status of a call at which the proxy hangs up."""

_HOP = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding")
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as its client sees it."""

    method: str
    path: str
    status: int
    at_s: float
    watch: bool

    @property
    def is_write(self) -> bool:
        """Return whether it could change something; renewals of Leases are not counted, they are meant to go on."""
        return self.method != "GET" and "/leases" not in self.path


@dataclass
class ApiProxy:
    """What a test sees of the proxy, and does to it."""

    kubeconfig: Path
    """Lets a client through it, as the user of the cluster's own kubeconfig."""
    calls: list[Call] = field(default_factory=list)
    rule: Rule = lambda method, path: None
    silent: bool = False
    """Whether watches tell nothing any more; their connections stay."""

    def writes(self, since_s: float = 0.0) -> list[Call]:
        """Return the writes since a moment of the monotonic clock."""
        return [call for call in list(self.calls) if call.is_write and call.at_s >= since_s]

    async def relay(self, request: web.Request, upstream: aiohttp.ClientSession, server: str) -> web.StreamResponse:
        """Answer one call."""
        watch = "watch" in request.query
        if (status := self.rule(request.method, request.path)) is not None:
            self._note(request, status, watch)
            if status == NO_ANSWER:
                assert request.transport is not None
                request.transport.abort()
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "injected", "code": status}
            return web.json_response(body, status=status or 503, headers={"Retry-After": "1"})
        url = URL(server + request.raw_path, encoded=True)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        sent = upstream.request(request.method, url, headers=headers, data=await request.read() or None)
        async with sent as answer:
            self._note(request, answer.status, watch)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                while watch and self.silent:  # noqa: ASYNC110 - a test sets it from another thread
                    await asyncio.sleep(_POLL_S)
                if self.rule(request.method, request.path) is not None:
                    break  # a watch that began before: it ends with what it would tell next
                await response.write(chunk)
            await response.write_eof()
            return response

    def _note(self, request: web.Request, status: int, watch: bool) -> None:
        self.calls.append(Call(request.method, request.path, status, time.monotonic(), watch))


@contextmanager
def api_proxy(kubeconfig: Path, folder: Path) -> Iterator[ApiProxy]:
    """Give a proxy on a free port of 127.0.0.1 to the API server of a kubeconfig."""
    proxy = ApiProxy(folder / "kubeconfig")

    async def serve(started: Callable[[], None], stop: asyncio.Event) -> None:
        async with _serving(proxy, kubeconfig) as port:
            proxy.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            proxy.kubeconfig.write_text(json.dumps(_kubeconfig(port)))
            started()
            await stop.wait()

    with in_thread(serve, "api-proxy"):
        yield proxy


@asynccontextmanager
async def _serving(proxy: ApiProxy, kubeconfig: Path) -> AsyncIterator[int]:
    settings = Configuration()
    await load_kube_config(str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, settings.key_file)
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, skip_auto_headers=["Accept-Encoding"]
    ) as upstream:

        async def answer(request: web.Request) -> web.StreamResponse:
            return await proxy.relay(request, upstream, str(settings.host))

        async with every_path(answer) as port:
            yield port


def _kubeconfig(port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxied",
        "clusters": [{"name": "proxied", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "proxied", "user": {}}],
        "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "proxied"}}],
    }
