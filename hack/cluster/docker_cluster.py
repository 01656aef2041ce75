"""A cluster in Docker, made by k3d or kind, with Traefik on http://127.0.0.1:8080 as on the local node.

k3d brings Traefik with it; kind gets it from the same manifest as the local node.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cluster.local.addons import traefik_manifest
from cluster.provider import Access
from cluster.shell import Shell

_NAME = "conch"
_INGRESS = "http://127.0.0.1:8080"
_TRAEFIK_IMAGE = "docker.io/library/traefik:v3.6"

DockerTool = Literal["k3d", "kind"]


@dataclass(frozen=True, slots=True)
class DockerCluster:
    """The cluster named `conch` of k3d or kind."""

    tool: DockerTool
    folder: Path
    """Where its kubeconfig is kept."""
    shell: Shell

    def up(self) -> Access:
        """Start it; leaves one that runs alone."""
        if not self._exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.tool == "k3d":
                self._create_k3d()
            else:
                self._create_kind()
        return self._access()

    def running(self) -> Access | None:
        """Return how to reach it when it is there."""
        return self._access() if self._exists() else None

    def images(self) -> frozenset[str]:
        """Return the names of the images in its node."""
        node = f"k3d-{_NAME}-server-0" if self.tool == "k3d" else f"{_NAME}-control-plane"
        listed = json.loads(self.shell.run("docker", "exec", node, "crictl", "images", "--output=json"))
        return frozenset(name for image in listed["images"] for name in image["repoTags"] or ())

    def load(self, archives: Iterable[Path]) -> None:
        """Import image archives into its node."""
        for archive in archives:
            if self.tool == "k3d":
                self.shell.show("k3d", "image", "import", f"--cluster={_NAME}", archive)
            else:
                self.shell.show("kind", "load", "image-archive", f"--name={_NAME}", archive)

    def status(self) -> bool:
        """Print its nodes and pods."""
        if not self._exists():
            return False
        self.shell.show("kubectl", f"--kubeconfig={self._kubeconfig}", "get", "nodes,pods", "-A")
        return True

    def down(self) -> None:
        """Delete it."""
        if self._exists():
            self.shell.show(
                self.tool, "delete", "cluster", f"--name={_NAME}"
            ) if self.tool == "kind" else self.shell.show("k3d", "cluster", "delete", _NAME)
        self._kubeconfig.unlink(missing_ok=True)

    @property
    def _kubeconfig(self) -> Path:
        return self.folder / f"{self.tool}.kubeconfig"

    def _access(self) -> Access:
        return Access(self._kubeconfig, ingress_url=_INGRESS)

    def _exists(self) -> bool:
        if self.tool == "kind":
            return _NAME in self.shell.run("kind", "get", "clusters").split()
        listed = json.loads(self.shell.run("k3d", "cluster", "list", "--output=json"))
        return any(cluster["name"] == _NAME for cluster in listed)

    def _create_k3d(self) -> None:
        ports = ("--port=127.0.0.1:8080:80@loadbalancer", "--port=127.0.0.1:8443:443@loadbalancer")
        quiet = ("--kubeconfig-update-default=false", "--kubeconfig-switch-context=false")
        self.shell.show("k3d", "cluster", "create", _NAME, *ports, *quiet, "--wait")
        self.shell.show("k3d", "kubeconfig", "write", _NAME, f"--output={self._kubeconfig}")

    def _create_kind(self) -> None:
        mappings = [{"containerPort": port, "hostPort": port, "listenAddress": "127.0.0.1"} for port in (8080, 8443)]
        config = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": "control-plane", "extraPortMappings": mappings}],
        }
        path = self.folder / "kind.json"
        path.write_text(json.dumps(config))
        options = (f"--config={path}", f"--kubeconfig={self._kubeconfig}", "--wait=120s")
        self.shell.show("kind", "create", "cluster", f"--name={_NAME}", *options)
        manifest = traefik_manifest(image=_TRAEFIK_IMAGE, listen="0.0.0.0", pull_policy="IfNotPresent")
        self.shell.run("kubectl", f"--kubeconfig={self._kubeconfig}", "apply", "-f", "-", text=manifest)


def find_docker_tool(shell: Shell) -> DockerTool | None:
    """Return the tool that makes clusters in Docker, when it and Docker's daemon are there."""
    tools: tuple[DockerTool, ...] = ("k3d", "kind")
    found = next((tool for tool in tools if shell.has(tool)), None)
    if found is None or not shell.has("docker") or not shell.has("kubectl"):
        return None
    return found if shell.ask("docker", "version", "--format={{.Server.Version}}").returncode == 0 else None
