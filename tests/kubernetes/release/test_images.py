"""Every image runs as the chart runs it: no rights, no user of the node, a read-only root."""

from typing import Any

import pytest

from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.kubernetes.cluster import Images, Namespace
from testkit.waiting import eventually

_SECURE = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize(
    ("target", "args", "says"),
    [
        ("gateway", [], "CONCH_REDIS_URL"),
        ("tokenizer", [], "CONCH_REDIS_URL"),
        ("llm-worker", [], "CONCH_REDIS_URL"),
        ("speech-worker", [], "CONCH_REDIS_URL"),
        ("operator", ["--help"], "usage: conch"),
        ("redis", ["--version"], "Valkey server"),
    ],
)
async def test_image_starts_its_program(
    namespace: Namespace, images: Images, target: str, args: list[str], says: str
) -> None:
    namespace.apply(_pod(target, images[target], args))

    def ended() -> bool:
        return namespace.get("pod", target)["status"]["phase"] in ("Succeeded", "Failed")

    await eventually(ended, "the end of its program", timeout_s=60)
    assert says.lower() in namespace.kubectl("logs", target).lower()


async def test_engine_image_serves_its_example_model_through_triton(namespace: Namespace, images: Images) -> None:
    model = CpuModel(name="tiny", model_folder="/models/tiny-chat", cache_folder="/tmp/cache")
    files = render_cpu_repository(model)
    keys = {path: path.replace("/", ".") for path in files}
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "repository"},
            "data": {keys[path]: text for path, text in files.items()},
        },
        _engine(images["engine-cpu"], [{"key": keys[path], "path": path} for path in files]),
    )
    namespace.wait("condition=Ready", "pod/engine", timeout_s=90)


def _engine(image: str, items: list[dict[str, str]]) -> dict[str, Any]:
    # By name, because a ConfigMap's volume also holds folders that are no models.
    args = ["--model-repository=/repository", "--model-control-mode=explicit", "--load-model=tiny"]
    pod = _pod("engine", image, [*args, "--disable-auto-complete-config"])
    container = pod["spec"]["containers"][0]
    container["readinessProbe"] = {"httpGet": {"path": "/v2/models/tiny/ready", "port": 8000}, "periodSeconds": 1}
    container["volumeMounts"] += [
        {"name": "repository", "mountPath": "/repository"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    pod["spec"]["volumes"] += [
        {"name": "repository", "configMap": {"name": "repository", "items": items}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
    ]
    return pod


def _pod(name: str, image: str, args: list[str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "securityContext": _SECURE,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
