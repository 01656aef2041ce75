"""Takes the node down, also after parts were killed: of it nothing but the binaries is left."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import ClusterError
from cluster.local.layout import BRIDGE, NODE_IP, RUN, Layout
from cluster.local.machine import Machine
from cluster.local.node import FORWARD_RULES, mounts, restore_kernel

_FOLDERS = ("etcd", "kubelet", "containerd", "log", "cni", "pki", "volumeplugins", "tmp", ".kube")
_FILES = ("containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "resolv.conf", "kernel.json")
_TABLES = ("ip kube-proxy", "ip6 kube-proxy", "ip conch")
_RESULTS = Path("/var/lib/cni/results")  # libcni's, not to be moved


def remove(machine: Machine) -> None:
    """Stop everything and remove it; raises ClusterError for what cannot be removed."""
    with noted(machine.layout):
        _remove(machine)


@contextmanager
def noted(layout: Layout) -> Iterator[None]:
    """Have a removal be known as begun until it is done."""
    if layout.home.exists():
        _note(layout).touch()
    yield
    _note(layout).unlink(missing_ok=True)


def is_half_done(layout: Layout) -> bool:
    """Tell whether a removal has begun and was ended: nothing can start with what it has left."""
    return _note(layout).exists()


def _note(layout: Layout) -> Path:
    return layout.home / "removal"


def _remove(machine: Machine) -> None:
    machine.kill("the components", machine.components)
    machine.kill("the pods", machine.in_pods)
    _unmount(machine)
    _clean_network(machine)
    _clean_system(machine)
    home = machine.layout.home
    folders = (RUN, *(home / name for name in _FOLDERS))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # what goes by itself meanwhile is no error
    for path in (*(home / name for name in _FILES), *home.glob("*.kubeconfig")):
        path.unlink(missing_ok=True)
    if left := [str(folder) for folder in folders if folder.exists()]:
        raise ClusterError(f"cannot remove {' '.join(left)}")


def _unmount(machine: Machine) -> None:
    for point in mounts(machine.layout):
        machine.shell.ask("umount", "-l", point)
    if left := mounts(machine.layout):
        # They may hold what belongs to others, a hostPath volume for one: delete nothing below.
        raise ClusterError(f"cannot unmount {' '.join(map(str, left))}")


def _clean_network(machine: Machine) -> None:
    shell = machine.shell
    ports = Path("/sys/class/net") / BRIDGE / "brif"
    if ports.exists():
        for link in [*(port.name for port in ports.iterdir()), BRIDGE]:
            shell.ask("ip", "link", "del", link)  # at once: with its namespace it would go a little later
    shell.ask("ip", "addr", "del", f"{NODE_IP}/32", "dev", "lo")
    if shell.has("nft"):
        for table in _TABLES:
            shell.ask("nft", "delete", "table", *table.split())
    if shell.has("iptables"):
        for rule in FORWARD_RULES:
            shell.ask("iptables", "-D", "FORWARD", *rule)
    for result in _RESULTS.glob("conch-*-eth0"):
        container = result.name.removeprefix("conch-").removesuffix("-eth0")
        (_RESULTS / f"cni-loopback-{container}-lo").unlink(missing_ok=True)
        result.unlink()
    _remove_empty(_RESULTS, _RESULTS.parent)


def _clean_system(machine: Machine) -> None:
    for address in (RUN / "containerd").glob("io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
    _remove_empty(Path("/run/containerd/s"), Path("/run/containerd"))
    logs = Path("/var/log/containers")
    for log in logs.glob("*.log"):
        if log.is_symlink() and str(log.readlink()).startswith(f"{machine.layout.log}/"):
            log.unlink()
    _remove_empty(logs)
    if not restore_kernel(machine.layout):
        return
    plugins = Path("/var/lib/kubelet/device-plugins")
    (plugins / "kubelet.sock").unlink(missing_ok=True)
    _remove_empty(plugins, plugins.parent)
    groups = Path("/sys/fs/cgroup")
    for top in (*groups.glob("kubepods"), *groups.glob("*/kubepods")):
        _remove_empty(*(Path(folder) for folder, _, _ in os.walk(top, topdown=False)))


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # not there, or somebody else's things are in it
            continue
