"""The local node as a provider: the order in which it comes up, is loaded, looked at and taken down."""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import ClusterError, ClusterUnavailable
from cluster.local import addons, binaries, configuration, credentials, node_images, removal
from cluster.local.control_plane import start_api_server, start_controllers
from cluster.local.layout import API, COMPONENTS, INGRESS, NODE_IP, RUN, Layout
from cluster.local.machine import Machine
from cluster.local.node import start_containerd, start_kubelet
from cluster.provider import Access
from cluster.settings import Settings
from cluster.shell import Shell, say

_OWNER = RUN / "home"
_BINARY_IMAGES = ("pause", "coredns", "traefik")


class LocalCluster:
    """The one node of this machine."""

    def __init__(self, settings: Settings, shell: Shell) -> None:
        self._settings = settings
        self._layout = Layout(settings.home)
        self._installer = shell
        self._machine = Machine(self._layout, shell.with_variables(HOME=str(settings.home)))

    def up(self) -> Access:
        """Start it, or start again what died in it, and wait until pods can run; finish a `down` that was ended."""
        began = time.monotonic()
        with self._alone():
            if removal.is_half_done(self._layout):
                say("A `cluster down` was ended halfway: what it has left is removed first.")
                removal.remove(self._machine)
            self._prepare()
            self._start()
        say(f"Kubernetes is up in {time.monotonic() - began:.0f} s.")
        return self._access()

    def running(self) -> Access | None:
        """Return how to reach it when all of its components run."""
        self._check_owner()
        return self._access() if all(map(self._machine.alive, COMPONENTS)) else None

    def images(self) -> frozenset[str]:
        """Return the names of the images in the node."""
        return node_images.names(self._machine)

    def load(self, archives: Iterable[Path]) -> None:
        """Import image archives into the node."""
        self._check_rights()
        if not self._machine.alive("containerd"):
            raise ClusterError("No cluster is up; start it with `cluster up`.")
        for archive in archives:
            node_images.load(self._machine, archive)

    def status(self) -> bool:
        """Print the components, the node and its pods."""
        self._check_owner()
        pids = {name: self._machine.alive(name) for name in COMPONENTS}
        for name, pid in pids.items():
            print(f"{name:26}{f'pid {pid}' if pid else 'not running'}")
        if pids["kube-apiserver"]:
            print(self._machine.kubectl("get", "nodes,pods", "-A", "-o", "wide", "--request-timeout=10s").stdout)
        return all(pids.values())

    def down(self) -> None:
        """Stop everything and leave nothing behind but the binaries."""
        with self._alone():
            removal.remove(self._machine)

    def _prepare(self) -> None:
        binaries.install_packages(self._installer)
        for folder in self._layout.folders():
            folder.mkdir(parents=True, exist_ok=True)
        _OWNER.write_text(str(self._layout.home))
        settings = self._settings
        binaries.place(self._layout, self._installer, ready_made=settings.binaries, cache=settings.cache)
        credentials.make(self._layout, self._machine.shell)
        configuration.write(self._layout)

    def _start(self) -> None:
        machine = self._machine
        start_containerd(machine)
        start_api_server(machine)
        for name in _BINARY_IMAGES:
            node_images.load_binary(machine, f"conch.test/{name}:1", self._layout.bin / name)
        needs = ("etcd", "kube-apiserver")
        machine.wait("kube-apiserver", lambda: addons.answers(self._layout, f"{API}/readyz"), needs=needs)
        start_controllers(machine)
        start_kubelet(machine)
        machine.wait("the add-ons' manifests", lambda: addons.apply(machine), needs=COMPONENTS)
        machine.wait("the node or an add-on", lambda: addons.ready(machine), limit_s=120, needs=COMPONENTS)

    def _access(self) -> Access:
        return Access(self._layout.admin, self._layout.bin, INGRESS, direct=(NODE_IP, "127.0.0.1", "localhost"))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one `up` or `down` at a time work on this machine."""
        self._check_rights()
        folder = os.open(RUN.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            self._check_owner()
            yield
        finally:
            os.close(folder)

    def _check_rights(self) -> None:
        if os.geteuid():
            raise ClusterUnavailable(
                "A node on this machine needs root. Without it: install k3d or kind beside Docker, "
                "or set CONCH_TEST_KUBECONFIG to a cluster."
            )

    def _check_owner(self) -> None:
        owner = _OWNER.read_text() if _OWNER.exists() else ""
        if owner and owner != str(self._layout.home):
            raise ClusterError(f"One runs here with CONCH_CLUSTER_HOME={owner}: set that, or take that down first.")
