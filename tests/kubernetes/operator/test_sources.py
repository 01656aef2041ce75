"""Downloads on a real cluster: from a Hub inside it to an engine that answers, and what is said when that fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.kubernetes.cluster import Cluster, Images, Namespace, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, Process, nobody, plane
from testkit.servers import hub as hub_server
from testkit.waiting import eventually

TOKEN = "hf_0123456789"
HUB = {"repo": hub_server.REPO, "tokenSecretRef": {"name": "hub"}}
_PORT = 8080


@pytest.fixture(scope="module")
def world(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, folder) as found:
        namespace.kubectl("create", "configmap", "hub", f"--from-file={Path(hub_server.__file__)}")
        namespace.apply(_hub(images), _service())
        namespace.wait("condition=Ready", "pod/hub", timeout_s=180)
        namespace.kubectl("create", "secret", "generic", "hub", f"--from-literal=token={TOKEN}")
        yield found


@pytest.fixture(scope="module")
def operator(world: Plane) -> Iterator[Process]:
    endpoint = f"http://hub.{world.namespace.name}.svc.cluster.local:{_PORT}"
    engines = world.engine_settings(downloads={"env": {"HF_ENDPOINT": endpoint}})
    with world.operator(round_s=1, release={"engines": engines}) as process:
        yield process
        world.namespace.kubectl("delete", "pod", "hub", "--wait=false")
        world.clear()


def test_a_downloaded_model_serves(world: Plane, operator: Process) -> None:
    world.namespace.apply(world.model("downloaded", source={"huggingFace": HUB}, servedNames=["downloaded"]))
    world.wait_ready("downloaded")
    world.namespace.kubectl("delete", "modeldeployment", "downloaded")


async def test_row_26_a_missing_secret_is_named_and_the_model_recovers(world: Plane, operator: Process) -> None:
    source = {"huggingFace": {**HUB, "tokenSecretRef": {"name": "later"}}}
    world.namespace.apply(world.model("secret", source=source, servedNames=["secret"]))
    await _says(world, "secret", "SecretNotFound", "The Secret later is missing")
    world.namespace.kubectl("create", "secret", "generic", "later", "--from-literal=other=x")
    await _says(world, "secret", "SecretNotFound", "token in Secret")
    world.namespace.kubectl("delete", "secret", "later")
    world.namespace.kubectl("create", "secret", "generic", "later", f"--from-literal=token={TOKEN}")
    world.wait_ready("secret", timeout_s=120)
    world.namespace.kubectl("delete", "modeldeployment", "secret")


@pytest.mark.parametrize(
    ("name", "spec", "reason", "says"),
    [
        ("row-12", {"source": {"huggingFace": {**HUB, "cache": {"size": "1Mi"}}}}, "InsufficientStorage", "1.0 MB"),
        ("revision", {"source": {"huggingFace": {**HUB, "revision": "v9"}}}, "SourceNotFound", "at v9"),
        ("private", {"source": {"huggingFace": {"repo": hub_server.REPO}}}, "SourceNotFound", "tokenSecretRef"),
        (
            "away",
            {"source": {"s3": {"uri": "s3://models/tiny", "endpoint": f"http://{nobody()}"}}},
            "SourceUnreachable",
            f"http://{nobody()} does not answer",
        ),
        (
            "row-24",
            {"source": {"s3": {"uri": "s3://models/tiny", "credentialsSecretRef": {"name": "elsewhere"}}}},
            "SecretNotFound",
            "elsewhere",
        ),
        ("claim", {"source": {"huggingFace": {**HUB, "cache": {"claimName": "none"}}}}, "ClaimNotFound", "none"),
        ("row-28", {"engine": {"cpu": {}, "nodeSelector": {"gpu": "none"}}}, "Unschedulable", "node"),
        (
            "pull-secret",
            {"engine": {"cpu": {}, "image": "conch.test/none:1", "imagePullSecrets": [{"name": "none"}]}},
            "SecretNotFound",
            "The Secret none is missing",
        ),
        (
            "row-29",
            {"tokenizer": {"chatTemplate": {"inline": "one\n{% endfor %}"}}},
            "TemplateInvalid",
            "line 2: Encountered unknown tag 'endfor'",
        ),
        (
            "no-map",
            {"tokenizer": {"chatTemplate": {"configMapKeyRef": {"name": "none", "key": "a"}}}},
            "ConfigMapNotFound",
            "The ConfigMap none",
        ),
    ],
)
async def test_a_model_that_cannot_be_brought_says_why(
    world: Plane, operator: Process, name: str, spec: dict[str, Any], reason: str, says: str
) -> None:
    world.namespace.apply(world.model(name, servedNames=[name], **spec))
    try:
        await _says(world, name, reason, says)
        assert TOKEN not in world.namespace.kubectl("get", "events,modeldeployments", "-o", "json")
    finally:
        world.namespace.kubectl("delete", "modeldeployment", name)


async def test_a_template_in_a_config_map_is_followed(world: Plane, operator: Process) -> None:
    reference = {"configMapKeyRef": {"name": "templates", "key": "tiny.jinja"}}
    _put_template(world.namespace, "{% if %}")
    world.namespace.apply(world.model("mapped", servedNames=["mapped"], tokenizer={"chatTemplate": reference}))
    await _says(world, "mapped", "TemplateInvalid", "tiny.jinja of the ConfigMap templates does not compile: line 1")
    _put_template(world.namespace, "{{ messages[0].content }}")
    world.wait_ready("mapped")
    _put_template(world.namespace, "{{ messages[-1].content }}")
    key = f"conch:1:routes {world.namespace.name}/mapped"

    def is_new() -> bool:
        return b"messages[-1]" in world.redis.command("HGET", *key.split())

    await eventually(is_new, "the new template in the route", timeout_s=60)
    world.namespace.kubectl("delete", "modeldeployment", "mapped")


async def _says(world: Plane, name: str, reason: str, says: str) -> None:
    """Wait until a model says so."""

    def is_said() -> bool:
        found = world.condition(name)
        return found.get("reason") == reason and says in found["message"]

    await eventually(is_said, f"{reason} of {name}; it says {world.condition(name)}", timeout_s=180)
    assert world.condition(name)["status"] == "False"


def _put_template(namespace: Namespace, text: str) -> None:
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "templates"},
            "data": {"tiny.jinja": text},
        }
    )


def _hub(images: Images) -> dict[str, Any]:
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    command = ["python", "/hub/hub.py", "/models/tiny-chat", str(_PORT), TOKEN]
    container = {
        "name": "hub",
        "image": images["engine-cpu"],
        "command": command,
        "securityContext": security,
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "hub", "mountPath": "/hub"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hub", "labels": {"app": "hub"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": "hub", "configMap": {"name": "hub"}}],
        },
    }


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hub"},
        "spec": {"selector": {"app": "hub"}, "ports": [{"port": _PORT}]},
    }
