"""A real Kubernetes for tests: the one that runs, else one that is started for them and stopped after them."""

import json
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.image_names import NAMES
from testkit.processes.conch_up import wait_until

_ROOT = Path(__file__).resolve().parents[4]
_SCRIPT = _ROOT / "hack" / "cluster" / "cluster"
_CRDS = sorted((_ROOT / "crds").glob("*.yaml"))
"""EnginePool's, then ModelDeployment's."""
_UNAVAILABLE = 3
_BUILD_S = 1800
_KNOWN_S = 120
_GONE_S = 120
_DOWN_S = 300
"""To delete some gigabytes of images takes seconds, or minutes where the disk has much to do."""
_RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
_OF_A_TEST = "conch-test-"
_TOLD = 3_000
"""Characters of a failed build's output that its error holds."""


class NoCluster(Exception):
    """No cluster can run on this machine; the message says why."""


class NoImages(Exception):
    """The images of this checkout could not be built; the message is the end of what the build said."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    kubeconfig: Path
    tools: Path | None
    """A folder with kubectl and helm; without it they are on PATH."""
    ingress_url: str | None

    def kubectl(self, *words: str | Path, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run kubectl and return what it prints; a failure is an AssertionError with what it says."""
        done = self.try_kubectl(*words, stdin=stdin, timeout_s=timeout_s)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, words))}: {done.stderr or done.stdout}"
        return done.stdout

    def try_kubectl(
        self, *words: str | Path, stdin: str | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a kubectl whose failure is an answer."""
        command = [self.tool("kubectl"), f"--kubeconfig={self.kubeconfig}", *map(str, words)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)

    def establish(self, definition: Path, name: str, *options: str) -> None:
        """Apply a definition and wait until its objects are taken.

        `kubectl wait` fails on a definition that has no conditions yet, which an API server says as null.
        """
        self.kubectl("apply", "--server-side", *options, "-f", definition)
        query = '-o=jsonpath={.status.conditions[?(@.type=="Established")].status}'
        wait_until(
            lambda: self.try_kubectl("get", "crd", name, query).stdout == "True", f"{name} established", _KNOWN_S
        )

    def tool(self, name: str) -> str:
        """Return the command that starts kubectl or helm."""
        return str(self.tools / name) if self.tools else name

    def load_images(self) -> "Images":
        """Make the images of this checkout be in the nodes, built where they are not, and return their names.

        Raises NoImages with the end of what the build said.
        """
        done = subprocess.run([_SCRIPT, "images"], capture_output=True, text=True, timeout=_BUILD_S, check=False)
        if done.returncode:
            raise NoImages(done.stderr[-_TOLD:])
        return Images(dict(zip(NAMES, done.stdout.split(), strict=True)))


@dataclass(frozen=True, slots=True)
class Images:
    """The images of this checkout in the cluster: the Dockerfile's targets and the references to use in pods."""

    references: Mapping[str, str]

    def __getitem__(self, target: str) -> str:
        return self.references[target]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of one test, in which Kubernetes enforces the restricted Pod Security level."""

    cluster: Cluster
    name: str

    def kubectl(self, *words: str | Path, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run kubectl in it."""
        return self.cluster.kubectl("--namespace", self.name, *words, stdin=stdin, timeout_s=timeout_s)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects in it."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return one object in it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def wait(self, condition: str, *objects: str, timeout_s: float = 60) -> None:
        """Wait until a condition of the objects holds, as `kubectl wait --for` has it."""
        self.kubectl("wait", f"--for={condition}", *objects, f"--timeout={timeout_s:g}s", timeout_s=timeout_s + 10)

    def evict(self, pod: str) -> bool:
        """Ask for a pod's eviction, as a drain of its node does; return whether it goes: a budget may not allow it."""
        name = {"name": pod, "namespace": self.name}
        eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name})
        path = f"/api/v1/namespaces/{self.name}/pods/{pod}/eviction"
        return self.cluster.try_kubectl("create", "--raw", path, "-f", "-", stdin=eviction).returncode == 0


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Give the cluster that runs, else start one and stop it afterwards; raises NoCluster where none can run."""
    if (found := _show()) is not None:
        yield found
        return
    try:
        started = _start()
    except AssertionError:
        _stop()
        raise
    try:
        yield started
    finally:
        _stop()


@contextmanager
def definition(cluster: Cluster) -> Iterator[None]:
    """Give a cluster with our definition; one that was not there goes again, unless somebody uses it by then."""
    there = _is_defined(cluster)
    for crd in _CRDS:
        cluster.establish(crd, crd.stem, "--force-conflicts")
    try:
        yield
    finally:
        if not there:
            _forget(cluster)


@contextmanager
def definition_by_chart(cluster: Cluster) -> Iterator[bool]:
    """Tell whether a chart may bring our definition: not where one is, which is brought up to date instead."""
    if _is_defined(cluster):
        with definition(cluster):
            yield False
        return
    try:
        yield True
    finally:
        _forget(cluster)


def _is_defined(cluster: Cluster) -> bool:
    return cluster.try_kubectl("get", "crd", *(crd.stem for crd in _CRDS)).returncode == 0


def _forget(cluster: Cluster) -> None:
    query = "-o=jsonpath={.items[*].metadata.namespace}"
    users = set(cluster.kubectl("get", "mdep,epool", "--all-namespaces", query).split())
    if not users - set(_going(cluster)):
        cluster.kubectl("delete", "crd", *(crd.stem for crd in _CRDS))


@contextmanager
def fresh_namespace(cluster: Cluster) -> Iterator[Namespace]:
    """Give a namespace that nobody else has; afterwards it and all in it are deleted, and its pods have gone."""
    name = _OF_A_TEST + secrets.token_hex(4)
    cluster.kubectl("create", "namespace", name)
    try:
        cluster.kubectl("label", "namespace", name, _RESTRICTED)
        yield Namespace(cluster, name)
    finally:
        _remove(cluster, name)


def _remove(cluster: Cluster, namespace: str) -> None:
    """Have a namespace and all in it go, without waiting for engines that no operator lets go any more.

    Nothing makes a pod in it again once it is to go. Kubernetes looks at it again 5 s after that: `wait_for_removals`
    sees that it goes.
    """
    cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
    cluster.kubectl("delete", "pods", f"--namespace={namespace}", "--all", "--grace-period=1")


def wait_for_removals(cluster: Cluster) -> None:
    """Wait until all namespaces of tests that are to go have gone."""
    wait_until(lambda: not _going(cluster), "namespaces to go", _GONE_S, 0.5)


def _going(cluster: Cluster) -> list[str]:
    query = '-o=jsonpath={.items[?(@.status.phase=="Terminating")].metadata.name}'
    found = cluster.kubectl("get", "namespaces", query).split()
    return [name for name in found if name.startswith(_OF_A_TEST)]


def _show() -> Cluster | None:
    done = subprocess.run([_SCRIPT, "show"], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        return None
    facts: dict[str, str | None] = json.loads(done.stdout)
    tools, kubeconfig = facts["tools"], facts["kubeconfig"]
    assert kubeconfig is not None
    return Cluster(Path(kubeconfig), Path(tools) if tools else None, facts["ingress_url"])


def _start() -> Cluster:
    done = subprocess.run([_SCRIPT, "up"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == _UNAVAILABLE:
        raise NoCluster(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"The cluster did not start: {done.stderr}"
    started = _show()
    assert started is not None, "The cluster is not there right after it came up."
    return started


def _stop() -> None:
    subprocess.run([_SCRIPT, "down"], check=True, timeout=_DOWN_S)
