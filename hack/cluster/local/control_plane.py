"""Starts etcd, the API server, the controllers and the scheduler."""

from collections.abc import Sequence

from cluster.local.layout import API, ETCD, ETCD_PEER, NODE_IP, SERVICE_CIDR, Layout
from cluster.local.machine import Machine

_WATCHERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")


def start_api_server(machine: Machine, options: Sequence[str] = ()) -> None:
    """Start etcd and the API server, with these options besides; neither is waited for."""
    kube = machine.layout.kube
    machine.start("etcd", kube, "etcd", *_etcd(machine.layout))
    if not machine.alive("kube-apiserver"):
        # What watched the last one looks again after up to a minute only: those are started afresh.
        machine.kill("the watchers of the API", lambda: machine.components(_WATCHERS))
    machine.start("kube-apiserver", kube, "kube-apiserver", *_api_server(machine.layout), *options)


def start_controllers(machine: Machine) -> None:
    """Start the controllers and the scheduler of an API server that answers."""
    layout = machine.layout
    for name, extra in (("kube-controller-manager", _controllers(layout)), ("kube-scheduler", ())):
        config = layout.home / f"{name}.kubeconfig"
        machine.start(
            name,
            layout.kube,
            name,
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *extra,
        )


def _etcd(layout: Layout) -> tuple[str, ...]:
    return (
        f"--data-dir={layout.home}/etcd",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster=default={ETCD_PEER}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


def _api_server(layout: Layout) -> tuple[str, ...]:
    pki = layout.pki
    return (
        f"--etcd-servers={ETCD}",
        f"--advertise-address={NODE_IP}",
        f"--bind-address={NODE_IP}",
        f"--secure-port={API.rpartition(':')[2]}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--service-account-key-file={pki}/sa.key",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--anonymous-auth=true",
        "--kubelet-preferred-address-types=InternalIP",
        "--watch-cache=true",
        "--v=1",
    )


def _controllers(layout: Layout) -> tuple[str, ...]:
    pki = layout.pki
    return (
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/sa.key",
        "--use-service-account-credentials=true",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--node-monitor-grace-period=2m",
        "--kube-api-qps=200",  # with the default 20 it takes 5 s to start its controllers
        "--kube-api-burst=400",
    )
