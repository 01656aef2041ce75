"""Writes the configuration files of containerd, CNI, the kubelet and kube-proxy."""

import json
from pathlib import Path

from cluster.local.layout import BRIDGE, DNS_IP, NODE, NODE_IP, POD_CIDR, RUN, SOCKET, Layout

_EVICTION = {"memory.available": "64Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"}


def write(layout: Layout) -> None:
    """Write all of them."""
    _write(layout.containerd_config, _containerd(layout))
    _write(layout.home / "resolv.conf", "nameserver 127.0.0.1\n")
    _write_json(layout.home / "cni" / "10-conch.conflist", _network())
    _write_json(layout.home / "kubelet.yaml", _kubelet(layout))
    _write_json(layout.home / "kube-proxy.yaml", _kube_proxy(layout))


def _write(path: Path, text: str) -> None:
    """Write what differs only: kube-proxy ends when its file is touched."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _write_json(path: Path, content: dict[str, object]) -> None:
    _write(path, json.dumps(content))


def _containerd(layout: Layout) -> str:
    # Where processes may not lower their OOM score, restrict_oom_score_adj lets containers start all the same.
    return f"""version = 2
root = "{layout.home}/containerd"
state = "{RUN}/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "conch.test/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{layout.home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{RUN}/runc"
"""


def _network() -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": str(RUN / "ipam"),
        "ranges": [[{"subnet": POD_CIDR}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "conch", "plugins": [bridge]}


def _kubelet(layout: Layout) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "authentication": {"x509": {"clientCAFile": str(layout.pki / "ca.crt")}},
        "tlsCertFile": str(layout.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(layout.pki / "kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(layout.home / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "staticPodPath": "",
        "makeIPTablesUtilChains": False,
        "evictionHard": _EVICTION,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "enforceNodeAllocatable": ["pods"],
        "maxPods": 200,
        "serializeImagePulls": False,
        "podLogsDir": str(layout.log / "pods"),
        "volumePluginDir": str(layout.home / "volumeplugins"),
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "4s",
        "shutdownGracePeriod": "0s",
    }


def _kube_proxy(layout: Layout) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.home / "kube-proxy.kubeconfig")},
        "hostnameOverride": NODE,
        "mode": "nftables",
        "nftables": {"minSyncPeriod": "100ms"},
        "clusterCIDR": POD_CIDR,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
