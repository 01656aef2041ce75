"""A Kubernetes whose nodes and pods are played, for as long as a context lasts.

It has the node's addresses and ports (`local/layout`), so it runs in a network of its own: `unshare --net`. There every
address of the pods' network is this machine's, and who listens on all addresses answers for every pod.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster import debian_packages
from cluster.errors import ClusterUnavailable
from cluster.local import addons, binaries, credentials
from cluster.local.control_plane import start_api_server, start_controllers
from cluster.local.layout import API, NODE_IP, Layout
from cluster.local.machine import Machine
from cluster.local.played import kwok
from cluster.settings import Settings
from cluster.shell import Shell

NODES = 10
_COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
_NEEDED = ("etcd", "kube-apiserver")
_PROGRAMS = {"ip": "iproute2", "unshare": "util-linux", "zstd": "zstd", "openssl": "openssl"}


def prepare(settings: Settings, shell: Shell) -> None:
    """Have all programs ready that it needs: in a network of its own nothing can be downloaded. Raises ClusterError."""
    debian_packages.require("A played cluster", _PROGRAMS, shell)
    _sources(settings, shell)


@contextmanager
def played_cluster(settings: Settings, shell: Shell, options: Sequence[str] = ()) -> Iterator[Machine]:
    """Run it in the home of the settings, its API server with these options besides.

    Raises ClusterUnavailable where this network is not ours alone, and where a binary cannot be had.
    """
    layout = Layout(settings.home)
    machine = Machine(layout, shell.with_variables(HOME=str(settings.home)))
    _take_network(shell)
    for folder in (layout.bin, layout.pki, layout.log):
        folder.mkdir(parents=True, exist_ok=True)
    for name, source in _sources(settings, shell).items():
        binaries.put(name, source, layout, shell)
    credentials.make(layout, machine.shell)
    try:
        start_api_server(machine, options)
        machine.wait("kube-apiserver", lambda: addons.answers(layout, f"{API}/readyz"), needs=_NEEDED)
        start_controllers(machine)
        kwok.start(machine)
        _make_nodes(machine)
        yield machine
    finally:
        for process in machine.started:
            process.kill()
            process.wait()


def _sources(settings: Settings, shell: Shell) -> dict[str, Path]:
    """Return the folders that hold the binaries, by the binary's name."""
    return {
        "kube": settings.binaries or binaries.built(settings.cache, shell),
        "kwok": kwok.find(settings.binaries, settings.cache, shell),
    }


def _take_network(shell: Shell) -> None:
    """Make the addresses of node and pods be this machine's; only in a network in which nobody else is."""
    others = [
        link["ifname"] for link in json.loads(shell.run("ip", "-j", "addr")) if link["addr_info"] and not _is_lo(link)
    ]
    if others:
        raise ClusterUnavailable(
            f"This network has other interfaces ({', '.join(others)}): start this with `unshare --net`."
        )
    shell.run("ip", "link", "set", "lo", "up")
    shell.run("ip", "addr", "replace", f"{NODE_IP}/32", "dev", "lo")
    shell.run("ip", "route", "replace", "local", kwok.POD_NETWORK, "dev", "lo")


def _is_lo(link: dict[str, object]) -> bool:
    return link["ifname"] == "lo"


def _make_nodes(machine: Machine) -> None:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        for name in (f"played-{number}" for number in range(NODES))
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    machine.wait("the nodes", lambda: machine.kubectl("apply", "-f", "-", text=text).returncode == 0)
    ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    wanted = " ".join(["True"] * NODES)
    machine.wait(
        "nodes that are ready",
        lambda: machine.kubectl("get", "nodes", "-o", ready).stdout.strip() == wanted,
        needs=_COMPONENTS,
    )
