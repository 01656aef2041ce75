"""The NetworkPolicies of a model's pods: workers and the operator may call them, they may call nobody.

The kubelet's probes and hooks need no rule: traffic from a pod's own node is always let in.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from conch_contracts.names import AGENT_PORT, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from conch_operator.settings import NetworkPolicySettings

Object = dict[str, Any]


def make_network_policy(
    metadata: Object, pods: Mapping[str, str], settings: NetworkPolicySettings, *, engine: bool
) -> Object:
    """Return the policy of an engine's pods, or of a source reader's."""
    ports = (TRITON_HTTP_PORT, TRITON_GRPC_PORT, AGENT_PORT) if engine else (AGENT_PORT,)
    ingress: list[Object] = [{"from": list(settings.from_), "ports": _ports(ports)}]
    if engine:
        ingress.append({"ports": _ports((TRITON_METRICS_PORT,))})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": dict(pods)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": [],
        },
    }


def _ports(numbers: Sequence[int]) -> list[Object]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]
