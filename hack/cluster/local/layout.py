"""Every path, address and port of the local node. There is one a machine."""

from dataclasses import dataclass
from pathlib import Path

RUN = Path("/run/conch-cluster")
"""What a reboot must forget: sockets, containers' state."""
SOCKET = RUN / "containerd.sock"

NODE = "node-1"
NODE_IP = "172.30.255.1"
POD_CIDR = "172.30.128.0/18"
SERVICE_CIDR = "172.30.192.0/20"
FIRST_SERVICE_IP = "172.30.192.1"
DNS_IP = "172.30.192.10"
BRIDGE = "conch-pods"

API = f"https://{NODE_IP}:6443"
ETCD = "http://127.0.0.1:23790"
ETCD_PEER = "http://127.0.0.1:23800"
INGRESS = "http://127.0.0.1:8080"

COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
)
PORTS = {
    "etcd": ("127.0.0.1:23790", "127.0.0.1:23800"),
    "kube-apiserver": (f"{NODE_IP}:6443",),
    "kube-controller-manager": ("127.0.0.1:10257",),
    "kube-scheduler": ("127.0.0.1:10259",),
    "kubelet": ("127.0.0.1:10248", f"{NODE_IP}:10250"),
    "kube-proxy": ("127.0.0.1:10249", "127.0.0.1:10256"),
    "traefik": ("127.0.0.1:8080", "127.0.0.1:8082", "127.0.0.1:8443"),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The files below the node's home."""

    home: Path

    @property
    def bin(self) -> Path:
        """The binaries; all of Kubernetes and etcd is the one called `kube`."""
        return self.home / "bin"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.home / "pki"

    @property
    def log(self) -> Path:
        """One log per component."""
        return self.home / "log"

    @property
    def temporary(self) -> Path:
        """Files of one command."""
        return self.home / "tmp"

    @property
    def kube(self) -> Path:
        """The binary of all components."""
        return self.bin / "kube"

    @property
    def admin(self) -> Path:
        """The kubeconfig for users of the cluster."""
        return self.home / "admin.kubeconfig"

    @property
    def containerd_config(self) -> Path:
        """Containerd's configuration, by which its process is known."""
        return self.home / "containerd.toml"

    def folders(self) -> tuple[Path, ...]:
        """Return what must exist before anything starts."""
        return (self.bin, self.pki, self.log, RUN, self.home / "cni", self.home / "kubelet", self.temporary)
