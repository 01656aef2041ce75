"""CoreDNS and Traefik: their manifests, and whether they and the node are ready."""

import json
import ssl
import urllib.request
from pathlib import Path

from cluster.local.layout import DNS_IP, NODE_IP, Layout
from cluster.local.machine import Machine

_MANIFESTS = Path(__file__).with_name("manifests")
_HEALTH = ("http://127.0.0.1:10248/healthz", "http://127.0.0.1:10256/healthz", "http://127.0.0.1:8082/ping")
"""Of the kubelet, kube-proxy and Traefik."""


def coredns_manifest() -> str:
    """Return CoreDNS for this node."""
    text = (_MANIFESTS / "coredns.yaml").read_text()
    return text.replace("@NODE_IP@", NODE_IP).replace("@DNS_IP@", DNS_IP)


def traefik_manifest(*, image: str, listen: str, pull_policy: str) -> str:
    """Return Traefik as the default ingress class, on the node's own network."""
    text = (_MANIFESTS / "traefik.yaml").read_text()
    return text.replace("@IMAGE@", image).replace("@LISTEN@", listen).replace("@PULL_POLICY@", pull_policy)


def apply(machine: Machine) -> bool:
    """Apply the manifests; False while the API server is not ready for them."""
    traefik = traefik_manifest(image="conch.test/traefik:1", listen="127.0.0.1", pull_policy="Never")
    text = f"{coredns_manifest()}\n---\n{traefik}"
    return machine.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=text).returncode == 0


def ready(machine: Machine) -> bool:
    """Tell whether the node and its add-ons are ready."""
    # The API still calls a node Ready whose kubelet has just died: they are asked themselves.
    if not all(answers(machine.layout, url) for url in _HEALTH):
        return False
    condition = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    if machine.kubectl("get", "nodes", "-o", condition).stdout.strip() != "True":
        return False
    deployments = machine.kubectl("get", "deployments", "-n", "kube-system", "-o", "json")
    return deployments.returncode == 0 and all(
        deployment.get("status", {}).get("readyReplicas") for deployment in json.loads(deployments.stdout)["items"]
    )


def answers(layout: Layout, url: str) -> bool:
    """Tell whether an address of this node answers with 200."""
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=2) as response:
            status: int = response.status
            return status == 200
    except OSError:
        return False
