"""Prepares the machine's kernel and network for pods, and starts containerd, the kubelet and kube-proxy."""

import json
import socket
from pathlib import Path

from cluster.errors import ClusterError
from cluster.local.layout import BRIDGE, COMPONENTS, NODE, NODE_IP, POD_CIDR, PORTS, RUN, Layout
from cluster.local.machine import Machine

_FORWARDING = ("net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables")
# The kubelet and we set these; they are set back when the node is taken down.
_KERNEL = (
    *_FORWARDING,
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
)
FORWARD_RULES = (("-i", BRIDGE, "-j", "ACCEPT"), ("-o", BRIDGE, "-j", "ACCEPT"))
_NAT = f"""
table ip conch
delete table ip conch
table ip conch {{
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        ip saddr {POD_CIDR} ip daddr != {{ {POD_CIDR}, 224.0.0.0/4 }} masquerade
    }}
}}
"""


def start_containerd(machine: Machine) -> None:
    """Set the kernel and the network up, then start containerd and wait for it."""
    shell = machine.shell
    remember_kernel(machine.layout)
    if shell.has("modprobe"):
        shell.ask("modprobe", "-a", "br_netfilter", "overlay")
    shell.run("ip", "addr", "replace", f"{NODE_IP}/32", "dev", "lo")
    _check_ports(machine)
    for key in _FORWARDING:
        if (path := _kernel_file(key)).exists():
            path.write_text("1")
    shell.run("nft", "-f", "-", text=_NAT)
    _let_pods_through(machine)
    machine.start("containerd", "containerd", "--config", machine.layout.containerd_config)
    machine.wait("containerd", lambda: machine.ctr("version").returncode == 0, needs=("containerd",))


def start_kubelet(machine: Machine) -> None:
    """Start the kubelet and kube-proxy; neither is waited for."""
    layout, root = machine.layout, RUN / "kubelet"
    if root not in mounts(layout):  # home's disk under a short name: a socket's path ends at 107 characters
        root.mkdir(exist_ok=True)
        machine.shell.run("mount", "--bind", "--make-private", layout.home / "kubelet", root)
    machine.start(
        "kubelet",
        layout.kube,
        "kubelet",
        f"--config={layout.home}/kubelet.yaml",
        f"--kubeconfig={layout.home}/kubelet.kubeconfig",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_IP}",
        f"--root-dir={root}",
        f"--cert-dir={layout.home}/kubelet/pki",
    )
    machine.start("kube-proxy", layout.kube, "kube-proxy", f"--config={layout.home}/kube-proxy.yaml")


def mounts(layout: Layout) -> list[Path]:
    """Return the mount points below the node's folders, the innermost first."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(point) for point in reversed(points) if point.startswith((f"{layout.home}/", f"{RUN}/"))]


def remember_kernel(layout: Layout) -> None:
    """Write down how the kernel is set before anything of ours changes it; what is written already stays."""
    if not _remembered(layout).exists():
        values = {key: path.read_text() for key in _KERNEL if (path := _kernel_file(key)).exists()}
        _remembered(layout).write_text(json.dumps(values))


def restore_kernel(layout: Layout) -> bool:
    """Set the kernel back to what it was; False when no kubelet ran here, so that nothing else of it is ours."""
    remembered = _remembered(layout)
    if not remembered.exists():
        return False
    for key, value in json.loads(remembered.read_text()).items():
        _kernel_file(key).write_text(value)
    return True


def _remembered(layout: Layout) -> Path:
    return layout.home / "kernel.json"


def _kernel_file(key: str) -> Path:
    return Path("/proc/sys") / key.replace(".", "/")


def _check_ports(machine: Machine) -> None:
    """Refuse to start beside whatever else uses one of our ports: it would look like a slow start."""
    ours = {name for name in COMPONENTS if machine.alive(name)} | ({"traefik"} if machine.in_pods() else set())
    for name, addresses in PORTS.items():
        for address in addresses if name not in ours else ():
            host, port = address.split(":")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, int(port)))
                except OSError as error:
                    raise ClusterError(f"{name} needs {address}: {error.strerror}") from error


def _let_pods_through(machine: Machine) -> None:
    """Docker drops what it does not know; where it rules, pods get an exception."""
    shell = machine.shell
    rules = shell.ask("iptables", "-S", "FORWARD").stdout if shell.has("iptables") else ""
    if "-P FORWARD DROP" in rules and BRIDGE not in rules:
        for rule in FORWARD_RULES:
            shell.run("iptables", "-I", "FORWARD", *rule)
