"""A release of the chart in namespaces of its own, and the SDK's client for it through the cluster's ingress."""

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from testkit.kubernetes.cluster import Cluster, Images, Namespace, definition_by_chart, fresh_namespace
from testkit.processes.conch_up import EXAMPLE, wait_until

NAME = "trial"
_CHART = Path(__file__).parents[4] / "charts" / "conch"
_INSTALL_S = 240
_WAIT = ("--wait", f"--timeout={_INSTALL_S}s")
_GONE_S = 120
_REACHED_S = 60
_WAIT_S = 600
_SMALL: Mapping[str, Any] = {"resources": {"requests": {"cpu": "30m"}}}
"""Test clusters have one small node, which more than one release may share."""
_MADE_BY_KUBERNETES = frozenset({"serviceaccount/default", "configmap/kube-root-ca.crt"})
_COMES_AND_GOES = ("events", "endpoint")


@dataclass(frozen=True, slots=True)
class Release:
    """An installed chart, its models' namespace, and where its ingress answers."""

    namespace: Namespace
    models: Namespace
    values: Mapping[str, Any]
    """What the chart is told."""

    @property
    def host(self) -> str:
        """Return the host that its ingress answers for."""
        return str(self.values["ingress"]["host"])

    @property
    def url(self) -> str:
        """Return the ingress' URL; requests need our host in their header."""
        url = self.namespace.cluster.ingress_url
        assert url is not None, "CONCH_TEST_INGRESS_URL must say where the cluster's ingress answers."
        return url

    def install(self) -> None:
        """Install the chart and wait for its pods, and until the ingress sends requests to them."""
        self.helm("install", NAME, _CHART, "--values=-", *_WAIT, stdin=json.dumps(self.values))
        wait_until(self._is_reached, "the ingress to know the release", _REACHED_S, 0.2)

    def _is_reached(self) -> bool:
        asked = Request(f"{self.url}/health", headers={"Host": self.host})
        try:
            with urlopen(asked, timeout=5):
                return True
        except OSError:  # an ingress that knows no such host answers 404
            return False

    def upgrade(self, *options: str) -> None:
        """Upgrade as the documentation says, with these options of helm, and wait for the new pods."""
        self.helm("upgrade", NAME, _CHART, "--reset-then-reuse-values", *options, *_WAIT)

    def roll_back(self) -> None:
        """Go back to the revision before the last upgrade, and wait for its pods."""
        self.helm("rollback", NAME, *_WAIT)

    def uninstall(self, *options: str) -> None:
        """Uninstall the chart with these options of helm, and wait until its objects have gone."""
        self.helm("uninstall", NAME, *options, "--wait", "--timeout=120s")

    def helm(self, *words: str | Path, stdin: str | None = None) -> str:
        """Run helm in the release's namespace; a failure is an AssertionError with what it says."""
        cluster = self.namespace.cluster
        where = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={self.namespace.name}"]
        command = [cluster.tool("helm"), *map(str, words), *where]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_WAIT_S, check=False)
        assert done.returncode == 0, (
            f"helm {' '.join(map(str, words))}: {done.stderr or done.stdout}\n{self.describe()}"
        )
        return done.stdout

    def remove(self) -> None:
        """Delete its models, then the release, and wait until nothing is left of either; can be said twice."""
        self.models.kubectl("delete", "modeldeployments", "--all", "--timeout=60s")
        # With the operator engines end at once, without it after a while.
        wait_until(lambda: not self.models.kubectl("get", "pods", "-o", "name"), "all engines to go", _GONE_S, 0.5)
        self.uninstall("--no-hooks", "--ignore-not-found")  # nobody is left to be told anything
        wait_until(lambda: not self.left(), "everything of the release to go", _GONE_S, 0.5)

    def left(self) -> list[str]:
        """Return what is there beside what Kubernetes itself makes."""
        cluster = self.namespace.cluster
        kinds = cluster.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
        chosen = ",".join(kind for kind in kinds if not kind.startswith(_COMES_AND_GOES))
        found = []
        for namespace in (self.namespace, self.models):
            found += namespace.kubectl("get", chosen, "-o", "name", "--ignore-not-found").split()
        wide = cluster.kubectl("get", "clusterroles,clusterrolebindings,validatingadmissionpolicies", "-o", "name")
        found += [name for name in wide.split() if self.namespace.name in name]
        return [name for name in found if name not in _MADE_BY_KUBERNETES]

    def apply_example(self, example: Path = EXAMPLE, /, *, name: str | None = None, **spec: Any) -> str:
        """Apply an example's model, by its own name or another, with changes of its spec, and return its name."""
        model: dict[str, Any] = yaml.safe_load(example.read_text())
        if name is not None:
            model["metadata"]["name"] = name
        model["spec"] |= spec
        self.models.apply(model)
        return str(model["metadata"]["name"])

    def wait_ready(self, model: str, timeout_s: float = 120) -> None:
        """Wait until a model serves; a failure says what there is."""
        try:
            self.models.wait("condition=Ready", f"modeldeployment/{model}", timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{model} is not ready.\n{self.describe()}") from error

    def keys(self) -> list[str]:
        """Return the API keys in the release's Secret."""
        text = base64.b64decode(self.namespace.get("secret", f"{NAME}-conch-api-keys")["data"]["keys"]).decode()
        return [line.rpartition(":")[2] for line in text.split()]

    @property
    def client_url(self) -> str:
        """Return the URL for clients that have `client_settings`."""
        return f"http://{self.host}/v1"

    def client_settings(self) -> Mapping[str, str]:
        """Return variables with which any client gets through the ingress: the host is a name that no DNS knows.

        So the ingress is named as the clients' proxy, of which they ask the whole URL.
        """
        return {"OPENAI_API_KEY": self.keys()[0], "http_proxy": self.url, "no_proxy": ""}

    def client(self, key: str | None = None) -> AsyncOpenAI:
        """Return the SDK's client for the release's ingress host, which tries nothing twice."""
        return AsyncOpenAI(
            base_url=f"{self.url}/v1",
            api_key=key or self.keys()[0],
            default_headers={"Host": self.host},
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        )

    def troubles(self) -> str:
        """Return what running pods have logged in the last minutes beside requests that ended well."""
        here, lines = f"--namespace={self.namespace.name}", []
        for pod in self.namespace.kubectl("get", "pods", "--output=name").split():
            asked = self.namespace.cluster.try_kubectl("logs", here, pod, "--all-containers", "--since=5m")
            lines += [f"{pod}: {line}" for line in asked.stdout.splitlines() if '"outcome":"ok"' not in line]
        return "\n".join(lines)

    def describe(self) -> str:
        """Return what there is, for a failure's message."""
        shown = [self.models.kubectl("get", "modeldeployments", "-o", "wide")]
        shown += [namespace.kubectl("get", "pods", "-o", "wide") for namespace in (self.namespace, self.models)]
        return "\n".join(shown)


@contextmanager
def release(cluster: Cluster, images: Images, **values: Any) -> Iterator[Release]:
    """Give an installed chart that serves the models of one namespace; nothing of it is left afterwards."""
    with (
        definition_by_chart(cluster) as by_chart,
        fresh_namespace(cluster) as namespace,
        fresh_namespace(cluster) as models,
    ):
        ours = _values(namespace, models, images, values)
        made = Release(namespace, models, {**ours, "crds": {"enabled": by_chart}})
        try:
            made.install()
            yield made
        finally:
            made.remove()


def _values(namespace: Namespace, models: Namespace, images: Images, more: Mapping[str, Any]) -> dict[str, Any]:
    gateway, redis = images["gateway"], images["redis"]
    prefix, _, tag = gateway.rpartition(":")
    return {
        "images": {"prefix": prefix.removesuffix("/gateway"), "tag": tag},
        "ingress": {"host": f"{namespace.name}.example.com"},
        "operator": {**_SMALL, "watchNamespaces": [models.name]},
        "gateway": {**_SMALL, **more.get("gateway", {})},
        "tokenizer": _SMALL,
        "workers": {"llm": _SMALL, "embed": _SMALL},
        "redis": {**_SMALL, "image": redis},
    }
