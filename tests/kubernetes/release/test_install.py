"""The chart, installed as a user installs it: from an applied ModelDeployment to the SDK's answers, and back."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from conch_contracts.names import SCRAPED_LABEL
from generate.helm import CHART
from testkit.kubernetes.cluster import Cluster, Images, fresh_namespace
from testkit.kubernetes.prometheus_queries import asked, chart_queries
from testkit.kubernetes.release import NAME, Release, release
from testkit.models.encoder_golden import TOLERANCE, encoder_golden
from testkit.models.golden import Item, load_golden
from testkit.processes.client_suites import passed
from testkit.processes.conch_up import ROOT
from testkit.waiting import eventually, eventually_in_thread

ROTATION_S = 180
"""The kubelet brings a changed Secret to its pods within a minute or two."""
EXAMPLES = ROOT / "examples"
ADDED_BY_PROMETHEUS = frozenset({"namespace", "pod"})


@pytest.fixture(scope="module")
def conch(cluster: Cluster, images: Images) -> Iterator[Release]:
    """Give a release."""
    with release(cluster, images) as installed:
        yield installed


@pytest.fixture(scope="module")
def tiny(conch: Release) -> str:
    """Give the name of a model that serves."""
    name = conch.apply_example()
    conch.wait_ready(name)
    return name


@pytest.fixture(scope="module")
def encoders(conch: Release) -> tuple[str, ...]:
    """Give the names of a reranker and a classifier that serve, on workers that were not there without them."""
    names = tuple(conch.apply_example(EXAMPLES / f"{name}.yaml") for name in ("tiny-reranker", "tiny-classifier"))
    for name in names:
        conch.wait_ready(name)
    return names


@pytest.fixture(scope="module")
def speech(conch: Release) -> str:
    """Give the name of a model of speech that serves."""
    name = conch.apply_example(EXAMPLES / "tiny-whisper.yaml")
    conch.wait_ready(name)
    return name


@pytest.fixture
def resting(conch: Release) -> Iterator[str]:
    """Give the name of a model that goes to rest as soon as a model may."""
    scaling = {"minReplicas": 0, "maxReplicas": 1, "idleAfter": "1s"}
    name = conch.apply_example(name="resting", servedNames=["resting"], default=False, scaling=scaling)
    yield name
    conch.models.kubectl("delete", "modeldeployment", name, "--timeout=60s")


async def answer_of(client: AsyncOpenAI, model: str, item: Item) -> str:
    messages: Any = item.messages
    answer = await client.chat.completions.create(model=model, messages=messages, temperature=0)
    return answer.choices[0].message.content or ""


async def text_of(client: AsyncOpenAI, model: str, item: Item) -> str:
    messages: Any = item.messages
    stream = await client.chat.completions.create(model=model, messages=messages, temperature=0, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def chats_as_the_reference(conch: Release, model: str) -> None:
    items = load_golden().chats()
    async with conch.client() as client:
        assert model in [found.id async for found in client.models.list()]
        texts = await asyncio.gather(*(text_of(client, model, item) for item in items))
    assert dict(zip([item.name for item in items], texts, strict=True)) == {item.name: item.text for item in items}


async def answers_until_ready(conch: Release, *models: str) -> None:
    """Wait until the first models of a release serve; the gateways that were ready without them answer meanwhile."""

    def wait() -> None:
        for model in models:
            conch.wait_ready(model)

    async with conch.client() as client:
        waiting = asyncio.create_task(asyncio.to_thread(wait))
        while not waiting.done():
            await client.models.list()
            await asyncio.wait([waiting], timeout=0.1)
        await waiting


async def encodes_as_the_reference(conch: Release) -> None:
    async with conch.client() as client:
        for item in encoder_golden("tiny-reranker"):
            pairs = {"model": "tiny-reranker", "query": item["query"], "documents": item["documents"]}
            answer: Any = await client.post("/rerank", body=pairs, cast_to=object)
            scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
            assert [scores[index] for index in range(len(scores))] == pytest.approx(item["scores"], abs=TOLERANCE)
        items = encoder_golden("tiny-classifier")
        texts = {"model": "tiny-classifier", "input": [item["text"] for item in items]}
        answer = await client.post("/classify", body=texts, cast_to=object)
    for entry, item in zip(answer["data"], items, strict=True):
        assert entry["label"] == item["label"]
        assert entry["probs"] == pytest.approx(item["probs"], abs=TOLERANCE)


async def test_an_editor_of_a_namespace_may_write_its_models(cluster: Cluster, conch: Release) -> None:
    def may(user: str, verb: str, *what: str) -> bool:
        question = ("auth", "can-i", verb, "modeldeployments", *what, f"--namespace={own.name}", f"--as={user}")
        return cluster.try_kubectl(*question).stdout.strip() == "yes"

    with fresh_namespace(cluster) as own:
        own.kubectl("create", "rolebinding", "editors", "--clusterrole=edit", "--user=editor")
        await eventually_in_thread(lambda: may("editor", "create"), "editors may create models", 60)
        assert may("editor", "get")
        assert may("editor", "patch", "--subresource=scale")
        assert not may("editor", "patch", "--subresource=status")
        assert not may("stranger", "get")


async def test_streams_through_the_ingress_equal_the_reference(conch: Release, tiny: str) -> None:
    await chats_as_the_reference(conch, tiny)


async def test_a_model_at_rest_answers_its_first_request(conch: Release, resting: str) -> None:
    story = load_golden().named("story")

    def rests() -> bool:
        status = conch.models.get("modeldeployment", resting).get("status", {})
        ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})
        pods = conch.models.kubectl("get", "pods", "-l", f"conch.dev/model-deployment={resting}", "-o", "name")
        return (ready.get("status"), ready.get("reason"), pods) == ("True", "ScaledToZero", "")

    async with conch.client() as client:
        for ask in (answer_of, text_of):
            await eventually_in_thread(rests, f"{resting} to rest", 180)
            began = time.monotonic()
            assert await ask(client, resting, story) == story.text
            print(f"{ask.__name__} from rest: {time.monotonic() - began:.1f} s")


def test_what_dashboard_and_alerts_ask_for_is_exported(conch: Release, tiny: str) -> None:
    exported = metrics_of(conch)
    for place, query in chart_queries().items():
        for one in asked(query):
            assert one.family in exported, place
            labels = exported[one.family]
            assert labels is None or one.labels <= labels | ADDED_BY_PROMETHEUS, place


@pytest.mark.parametrize("header", [openai.Omit(), "Bearer sk-wrong"], ids=["none", "wrong"])
async def test_no_key_and_a_wrong_key_are_refused(conch: Release, tiny: str, header: str | openai.Omit) -> None:
    question: Any = {"role": "user", "content": "Hello!"}
    headers = {"Authorization": header}
    async with conch.client() as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list(extra_headers=headers)
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model=tiny, messages=[question], extra_headers=headers)


async def test_keys_are_rotated_without_a_restart(conch: Release, tiny: str) -> None:
    old, new = conch.keys()[0], "sk-rotated"
    pods = restarts(conch)
    keys = base64.b64encode(f"default:{new}\n".encode()).decode()
    change = json.dumps({"data": {"keys": keys}})
    conch.namespace.kubectl("patch", "secret", f"{NAME}-conch-api-keys", "--type=merge", "-p", change)
    # Every gateway takes the change over in its own time, so one right answer does not tell.
    await eventually_in_a_row(conch, new, good=True)
    await eventually_in_a_row(conch, old, good=False)
    assert restarts(conch) == pods


async def test_while_no_gateway_is_there_clients_are_told_to_come_again(conch: Release, tiny: str) -> None:
    gateways = f"deployment/{NAME}-conch-gateway"
    replicas = conch.namespace.get("deployment", f"{NAME}-conch-gateway")["spec"]["replicas"]
    statuses = [200]
    conch.namespace.kubectl("scale", gateways, "--replicas=0")
    async with conch.client() as client, asyncio.timeout(60):
        while statuses[-20:] != [503] * 20:
            try:
                await client.models.list()
                statuses.append(200)
            except openai.APIStatusError as error:
                statuses.append(error.status_code)
    assert set(statuses) <= {200, 502, 503}
    conch.namespace.kubectl("scale", gateways, f"--replicas={replicas}")
    conch.namespace.kubectl("rollout", "status", gateways, "--timeout=120s", timeout_s=130)
    await chats_as_the_reference(conch, tiny)


def test_the_release_tests_itself(conch: Release, tiny: str) -> None:
    assert "Succeeded" in conch.helm("test", NAME, "--timeout=120s")


async def test_encoders_answer_through_the_ingress_as_the_reference(conch: Release, encoders: tuple[str, ...]) -> None:
    await encodes_as_the_reference(conch)


@pytest.mark.parametrize(
    ("suite", "packages"),
    [
        ("messages/test_messages.py", None),
        ("sdk/test_speech.py", None),
        ("clients/check_speech.py", "clients"),
    ],
)
def test_clients_get_through_the_ingress_what_they_get_without_one(
    conch: Release, tiny: str, speech: str, suite: str, packages: str | None
) -> None:
    assert passed(suite, conch.client_url, packages, settings=conch.client_settings())


async def test_a_backup_brings_the_same_models_to_a_fresh_release(
    conch: Release, tiny: str, encoders: tuple[str, ...]
) -> None:
    backup = conch.models.kubectl("get", "modeldeployments", "-o", "yaml")
    conch.remove()
    conch.install()
    conch.models.kubectl("apply", "-f", "-", stdin=backup)
    await answers_until_ready(conch, tiny, *encoders)
    await chats_as_the_reference(conch, tiny)
    await encodes_as_the_reference(conch)


async def test_an_upgrade_gives_redis_a_claim_and_takes_it_away(conch: Release, tiny: str) -> None:
    def data() -> Mapping[str, Any]:
        pod = conch.namespace.get("deployment", f"{NAME}-conch-redis")["spec"]["template"]["spec"]
        (volume,) = [found for found in pod["volumes"] if found["name"] == "data"]
        return {kind: source for kind, source in volume.items() if kind != "name"}

    await chats_as_the_reference(conch, tiny)  # so its tokenizer is known
    # No class answers it, so Redis is away, and what is known goes on being served.
    conch.helm("upgrade", NAME, CHART, "--reset-then-reuse-values", *_persistence(enabled="true", storage_class="none"))
    assert data() == {"persistentVolumeClaim": {"claimName": f"{NAME}-conch-redis"}}
    await chats_as_the_reference(conch, tiny)
    conch.upgrade(*_persistence(enabled="false", storage_class=""))
    assert list(data()) == ["emptyDir"]
    assert conch.namespace.kubectl("get", "persistentvolumeclaims", "-o", "name") == ""


def _persistence(*, enabled: str, storage_class: str) -> tuple[str, ...]:
    kept = {"enabled": enabled, "storageClass": storage_class}
    return tuple(word for name, value in kept.items() for word in ("--set", f"redis.persistence.{name}={value}"))


def test_no_status_claims_anything_after_an_uninstall(conch: Release, tiny: str) -> None:
    """Only the removal comes behind this one: the release has gone."""
    before = conch.models.get("modeldeployment", tiny)["status"]
    assert (before["readyReplicas"], before["servedNames"]) == (1, [tiny])
    conch.uninstall()
    status = conch.models.get("modeldeployment", tiny)["status"]
    assert {(one["status"], one["reason"]) for one in status["conditions"]} == {("Unknown", "OperatorRemoved")}
    assert (status["readyReplicas"], status["servedNames"]) == (0, [])
    assert conch.models.kubectl("get", "pods", "-o", "name"), "The engine belongs to its model and stays."
    chosen = f"reason=OperatorRemoved,involvedObject.name={tiny}"
    assert conch.models.kubectl("get", "events", f"--field-selector={chosen}", "-o", "name")


def test_nothing_is_left_but_the_definition(conch: Release, tiny: str) -> None:
    conch.remove()
    assert conch.left() == []
    assert "modeldeployments.conch.dev" in conch.namespace.cluster.kubectl("get", "crd", "-o", "name")


async def eventually_in_a_row(conch: Release, key: str, *, good: bool) -> None:
    """Wait until a key is taken, or refused, ten times in a row."""
    row = 0
    async with conch.client(key) as client:

        async def ask() -> None:
            nonlocal row
            try:
                await client.models.list()
                row = row + 1 if good else 0
            except openai.AuthenticationError:
                row = 0 if good else row + 1

        async def keep_asking() -> None:
            while True:
                await ask()
                await asyncio.sleep(0.2)

        asking = asyncio.create_task(keep_asking())
        try:
            await eventually(
                lambda: row >= 10 or asking.done(), f"{key} to be {'taken' if good else 'refused'}", ROTATION_S
            )
        finally:
            asking.cancel()


def restarts(conch: Release) -> dict[str, int]:
    """Return the gateway's pods and how often their containers were started again."""
    chosen = "app.kubernetes.io/component=gateway"
    pods = json.loads(conch.namespace.kubectl("get", "pods", "-l", chosen, "-o", "json"))["items"]
    return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}


def metrics_of(conch: Release) -> Mapping[str, frozenset[str] | None]:
    """Return the labels of what a release exports by name, None for what has counted nothing yet."""
    found: dict[str, frozenset[str] | None] = {}
    chosen = f"{SCRAPED_LABEL}=true"
    for pod in json.loads(conch.namespace.kubectl("get", "pods", "-l", chosen, "-o", "json"))["items"]:
        text = conch.namespace.cluster.kubectl("get", "--raw", f"{_admin(pod)}/metrics")
        for family in text_string_to_metric_families(text):
            labels = found.setdefault(family.name, None)
            for sample in family.samples:
                found[family.name] = labels = (labels or frozenset()) | frozenset(sample.labels)
    return found


def _admin(pod: Mapping[str, Any]) -> str:
    """Return where the API server passes requests on to a pod's admin port."""
    (port,) = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"] if port["name"] == "admin"]
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{port}/proxy"
