"""What is sent, and that a write that the server refuses is not sent again before its time."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import web

from conch_operator.kubernetes.api.backoff import Attempts, Backoff
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import CONFIG_MAP, POD, Object
from testkit.clock import FakeClock
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
    return {"status": {"conditions": [condition]}}


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


def use_server(port: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the client find an API server on this port, as $KUBECONFIG would."""
    named = {
        "cluster": {"server": f"http://127.0.0.1:{port}"},
        "user": {"token": "t"},
        "context": {"cluster": "c", "user": "c"},
    }
    lists = {f"{what}s": [{"name": "c", what: content}] for what, content in named.items()}
    (folder / "kubeconfig").write_text(json.dumps({"current-context": "c", **lists}))
    location = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"  # read when it is imported
    patch.setattr(location, str(folder / "kubeconfig"))


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
    assert seen == [
        ("PATCH", f"{path}?fieldManager=conch-operator&force=true", token, "application/apply-patch+yaml", MADE),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status?fieldManager=conch-operator", token, strategic, {"status": {}}),
        ("PATCH", f"{path}?fieldManager=conch-operator", token, "application/json-patch+json", change),
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
