"""The node's certificate authority, its components' certificates and their kubeconfigs, made with openssl."""

import base64
import json
from pathlib import Path

from cluster.local.layout import API, FIRST_SERVICE_IP, NODE, NODE_IP, Layout
from cluster.shell import Shell

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")  # 2 s sooner than RSA
_DAYS = "3650"
_API_NAMES = (
    "IP:127.0.0.1",
    f"IP:{NODE_IP}",
    f"IP:{FIRST_SERVICE_IP}",
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
)
_SUBJECTS = {
    "apiserver": "/CN=kube-apiserver",
    "admin": "/O=system:masters/CN=admin",
    "front-proxy": "/CN=front-proxy-client",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
}
_ALTERNATIVES = {"apiserver": ",".join(_API_NAMES), "kubelet": f"IP:{NODE_IP},DNS:{NODE}"}
_WITH_KUBECONFIG = ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")


def make(layout: Layout, shell: Shell) -> None:
    """Make what is missing; what is there stays, since running components use it."""
    pki = layout.pki
    if not (pki / "ca.crt").exists():
        usage = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
        names = ("-subj", "/CN=conch-test-ca", "-keyout", pki / "ca.key", "-out", pki / "ca.crt")
        shell.run("openssl", "req", "-x509", *_NEW_KEY, "-days", _DAYS, *names, *usage)
    for name in _SUBJECTS:
        _certificate(pki, name, shell)
    if not (pki / "sa.key").exists():
        shell.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", pki / "sa.key")
    for user in _WITH_KUBECONFIG:
        _kubeconfig(pki, layout.home / f"{user}.kubeconfig", user)
    _kubeconfig(pki, layout.admin, "admin")


def _certificate(pki: Path, name: str, shell: Shell) -> None:
    certificate, request, extension = (pki / f"{name}.{suffix}" for suffix in ("crt", "csr", "ext"))
    if certificate.exists():
        return
    key = pki / f"{name}.key"
    shell.run("openssl", "req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", _SUBJECTS[name])
    alternatives = f"subjectAltName={_ALTERNATIVES[name]}\n" if name in _ALTERNATIVES else ""
    extension.write_text(f"extendedKeyUsage=serverAuth,clientAuth\n{alternatives}")
    authority = ("-CA", pki / "ca.crt", "-CAkey", pki / "ca.key", "-CAcreateserial")
    files = ("-in", request, "-out", certificate, "-extfile", extension)
    shell.run("openssl", "x509", "-req", *authority, "-days", _DAYS, *files)


def _kubeconfig(pki: Path, path: Path, user: str) -> None:
    def data(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    keys = {"client-certificate-data": data(f"{user}.crt"), "client-key-data": data(f"{user}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "conch",
        "clusters": [{"name": "conch", "cluster": {"server": API, "certificate-authority-data": data("ca.crt")}}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": "conch", "context": {"cluster": "conch", "user": user}}],
    }
    fresh = path.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(json.dumps(content))
    fresh.rename(path)  # a second `up` must not show half a file to who reads it now
