"""What is sent, and that a write that the server refuses is not sent again before its time."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest
from aiohttp import web

from conch_operator.kubernetes.api.backoff import Attempts, Backoff
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi, NotLeading
from conch_operator.kubernetes.api.kinds import CONFIG_MAP, POD, Kind, Object
from conch_operator.kubernetes.api.object_selection import ObjectSelection
from testkit.clock import FakeClock
from testkit.kubernetes.watched_server import use_server
from testkit.servers.catch_all_http import every_path


class Refusing(KubernetesApi):
    """An API server that fails at every write, and counts them."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(attempts=Attempts(Backoff(chance=lambda: 1.0), clock))
        self.sent = 0

    async def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, str, float]:
        self.sent += 1
        return 500, '{"message": "no"}', 1.0


def gate(status: str, moment: str) -> Object:
    condition = {"type": "conch.dev/serving", "status": status, "lastTransitionTime": moment}
    return {"status": {"conditions": [condition]}, "eventTime": moment}


@pytest.mark.parametrize(
    ("second", "sent"),
    [
        pytest.param(gate("True", "2026-01-01T00:00:00Z"), 1, id="the same"),
        pytest.param(gate("True", "2026-01-01T00:00:01Z"), 1, id="the same at another moment"),
        pytest.param(gate("False", "2026-01-01T00:00:00Z"), 2, id="another"),
    ],
)
async def test_a_write_that_failed_waits_for_its_time_whatever_the_moment_in_it(second: Object, sent: int) -> None:
    api = Refusing(clock := FakeClock())
    for change in (gate("True", "2026-01-01T00:00:00Z"), second):
        with pytest.raises(ApiError, match="no"):
            await api.patch_list(POD, "ns", "pod", change, "status")
    assert api.sent == sent
    clock.advance(1)
    with pytest.raises(ApiError, match="no"):
        await api.patch_list(POD, "ns", "pod", second, "status")
    assert api.sent == sent + 1


MADE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ns"}, "data": {"a": "b"}}


async def test_a_call_is_sent_as_the_api_server_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        headers = [request.headers[name] for name in ("Authorization", "Content-Type")]
        seen.append(
            (request.method, request.path_qs, *headers, await request.json() if request.can_read_body else None)
        )
        return web.json_response({"items": [], "metadata": {}})

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            await api.apply(CONFIG_MAP, MADE)
            await api.patch_list(POD, "ns", "p", {"status": {}}, "status")
            await api.reset(CONFIG_MAP, MADE)
            await api.list_all(POD, None, labels="a=b,c")
    token, path = "Bearer t", "/api/v1/namespaces/ns/configmaps/m"
    change = [{"op": "add", "path": "/data", "value": {"a": "b"}}]
    strategic = "application/strategic-merge-patch+json"
    said = "fieldManager=conch-operator&fieldValidation=Ignore"
    status = f"/api/v1/namespaces/ns/pods/p/status?{said}"
    assert seen == [
        ("PATCH", f"{path}?{said}&force=true", token, "application/apply-patch+yaml", MADE),
        ("PATCH", status, token, strategic, {"status": {}}),
        ("PATCH", f"{path}?{said}", token, "application/json-patch+json", change),
        ("GET", "/api/v1/pods?limit=500&labelSelector=a%3Db,c", token, "application/json", None),
    ]


async def test_an_api_server_that_does_not_answer_is_an_error_without_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_server(9, tmp_path, monkeypatch)
    async with KubernetesApi() as api:
        with pytest.raises(ApiError, match="does not answer") as raised:
            await api.get(CONFIG_MAP, "ns", "m")
    assert raised.value.status == 0
    assert not raised.value.answered


async def test_what_the_api_server_says_of_a_call_that_fails_is_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "quota says no"}, status=403)

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            with pytest.raises(ApiError, match="quota says no") as raised:
                await api.create(CONFIG_MAP, MADE)
    assert raised.value.status == 403


async def test_a_list_of_several_pages_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = []

    async def answer(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        number = len(queries)
        token = {"continue": f"page {number + 1}"} if number < 3 else {}
        return web.json_response({"items": [{"number": number}], "metadata": token})

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            found = await api.list_all(POD, None, labels="a=b")
    assert [item["number"] for item in found] == [1, 2, 3]
    asked = {"limit": "500", "labelSelector": "a=b"}
    assert queries == [asked, asked | {"continue": "page 2"}, asked | {"continue": "page 3"}]


@pytest.mark.parametrize("status", [200, 404, 409])
async def test_exactly_the_object_that_was_seen_is_deleted_and_no_newer_one_of_its_name(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    async def answer(request: web.Request) -> web.Response:
        sent.append((request.method, await request.json()))
        return web.json_response({"message": "said"}, status=status)

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            await api.delete(CONFIG_MAP, {**MADE, "metadata": {**MADE["metadata"], "uid": "u-1"}})
    assert sent == [("DELETE", {"propagationPolicy": "Background", "preconditions": {"uid": "u-1"}})]


class Counting(KubernetesApi):
    """An API server that takes everything, for an operator that may have lost its Lease."""

    def __init__(self, *, leads: bool) -> None:
        super().__init__(lambda: leads)
        self.sent: list[str] = []

    async def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, str, float]:
        self.sent.append(method)
        return 200, '{"items": [], "metadata": {}}', 1.0


@pytest.mark.parametrize("leads", [True, False])
async def test_an_operator_that_has_lost_its_lease_writes_nothing_and_may_still_read(leads: bool) -> None:
    api = Counting(leads=leads)
    found = {**MADE, "metadata": {**MADE["metadata"], "uid": "u-1"}}
    writes = [
        lambda: api.apply(CONFIG_MAP, MADE),
        lambda: api.create(CONFIG_MAP, MADE),
        lambda: api.replace(CONFIG_MAP, MADE),
        lambda: api.reset(CONFIG_MAP, MADE),
        lambda: api.delete(CONFIG_MAP, found),
        lambda: api.patch(CONFIG_MAP, "ns", "m", {}, "status"),
        lambda: api.patch_list(POD, "ns", "p", {}, "status"),
    ]
    for write in writes:
        with nullcontext() if leads else pytest.raises(NotLeading, match="does not hold the Lease"):
            await write()
    assert len(api.sent) == (len(writes) if leads else 0)
    await api.list_all(POD, None)
    await api.get(CONFIG_MAP, "ns", "m")
    assert api.sent[-2:] == ["GET", "GET"]


class Answering(KubernetesApi):
    """An API server that gives these statuses in turn, the last one for ever, and asks for a pause each time."""

    def __init__(self, *statuses: int, pause_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(attempts=Attempts(clock=clock))
        self.sent = 0
        self._statuses = statuses
        self._pause_s = pause_s

    async def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, str, float]:
        status = self._statuses[min(self.sent, len(self._statuses) - 1)]
        self.sent += 1
        if status == 0:
            raise ApiError(0, "no answer")
        return status, '{"message": "busy"}', self._pause_s


@pytest.mark.parametrize(("statuses", "sent"), [((200,), 1), ((429, 200), 2), ((429, 429, 429, 200), 4)])
async def test_a_busy_api_server_is_asked_again(statuses: tuple[int, ...], sent: int) -> None:
    api = Answering(*statuses)
    await api.create(CONFIG_MAP, MADE)
    assert api.sent == sent


async def test_an_api_server_that_stays_busy_is_left_alone_after_some_attempts_and_short_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    api = Answering(429, pause_s=3600)
    with pytest.raises(ApiError, match="busy"):
        await api.create(CONFIG_MAP, MADE)
    assert (api.sent, pauses) == (4, [10.0] * 3)


async def test_a_write_that_got_no_answer_is_not_sent_again_before_its_time() -> None:
    clock = FakeClock()
    api = Answering(0, 201, clock=clock)
    for _ in range(3):
        with pytest.raises(ApiError, match="no answer"):
            await api.create(CONFIG_MAP, MADE)
    assert api.sent == 1
    clock.advance(Backoff().first_s)
    await api.create(CONFIG_MAP, MADE)
    assert api.sent == 2


class Listing(KubernetesApi):
    """An API server whose namespaces may be listed until they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: set[str | None] = set()

    async def list_all(self, kind: Kind, namespace: str | None, **_: object) -> list[Object]:
        if namespace in self.closed:
            raise ApiError(403, "forbidden")
        return [{"metadata": {"name": f"in-{namespace}"}}]


async def test_a_namespace_that_may_not_be_listed_any_more_keeps_what_it_had_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Listing()
    before = await api.list_watched(POD, "gone")
    api.closed = {"gone", None}
    for _ in range(3):
        assert await api.list_watched(POD, "gone") == before
    assert await api.list_watched(POD, "other") == [{"metadata": {"name": "in-other"}}]
    assert caplog.text.count("may not be read") == 1
    with pytest.raises(ApiError):
        await api.list_watched(POD, None)
    with pytest.raises(ApiError):
        await api.list_all(POD, "gone")


async def test_a_namespace_that_was_never_listed_is_waited_for_and_then_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Listing()
    api.closed = {"gone"}
    with pytest.raises(ApiError):
        await api.list_watched(POD, "gone")
    monkeypatch.setattr("conch_operator.kubernetes.api.client.GRACE_S", 0)
    assert await api.list_watched(POD, "gone") == []


@pytest.mark.parametrize(("status", "gone"), [(404, True), (403, False), (500, False)])
async def test_only_an_object_that_is_not_there_is_none(
    status: int, gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"message": "said"}, status=status)

    found = {**MADE, "metadata": {**MADE["metadata"], "uid": "u-1"}}
    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            with nullcontext() if gone else pytest.raises(ApiError, match="said"):
                assert await api.get(CONFIG_MAP, "ns", "m") is None
            with nullcontext() if gone else pytest.raises(ApiError, match="said"):
                await api.delete(CONFIG_MAP, found)


async def test_an_api_server_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_operator.kubernetes.api.client.TIMEOUT_S", 0.1)

    async def answer(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api, asyncio.timeout(60):
            with pytest.raises(ApiError, match="does not answer"):
                await api.get(CONFIG_MAP, "ns", "m")
            with pytest.raises(ApiError, match="does not answer"):
                async with api.watch(ObjectSelection(POD, "ns"), "1", silent_s=3600):
                    pass


async def test_an_error_that_is_no_json_is_told_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="<html>" + "x" * 10_000, status=502)

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            with pytest.raises(ApiError, match=r"^<html>x{494}$"):
                await api.get(CONFIG_MAP, "ns", "m")


@pytest.mark.parametrize("content", [b"", b'{"metadata": {', b"<html>", b"[1]", b"\xff", b"[" * 100_000])
async def test_an_answer_that_is_no_object_is_no_answer(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=content)

    async with every_path(answer) as port:
        use_server(port, tmp_path, monkeypatch)
        async with KubernetesApi() as api:
            with pytest.raises(ApiError, match="is no JSON object") as caught:
                await api.get(CONFIG_MAP, "ns", "m")
    assert not caught.value.answered
