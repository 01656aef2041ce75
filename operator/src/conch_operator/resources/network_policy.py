"""The NetworkPolicies of a model's pods.

Workers and the operator may call Triton, the operator alone the agent, and whoever may read the services' metrics may
read Triton's; the pods may call nobody. A pod that downloads may call name servers, and over TCP everybody but what
only the node should reach. The kubelet's probes and hooks need no rule: traffic from a pod's own node is always let in.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from conch_contracts.forbidden_addresses import FORBIDDEN, as_translated
from conch_contracts.names import AGENT_PORT, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from conch_operator.settings import NetworkPolicySettings

Object = dict[str, Any]


def make_network_policy(
    metadata: Object, pods: Mapping[str, str], settings: NetworkPolicySettings, *, engine: bool, downloads: bool
) -> Object:
    """Return the policy of an engine's pods, or of a source reader's."""
    ingress: list[Object] = [{"from": list(settings.agent_from), "ports": _ports((AGENT_PORT,))}]
    if engine:
        ingress.append({"from": list(settings.from_), "ports": _ports((TRITON_HTTP_PORT, TRITON_GRPC_PORT))})
        everybody: Object = {"ports": _ports((TRITON_METRICS_PORT,))}
        readers = {"from": list(settings.metrics_from)} if settings.metrics_from else {}
        ingress.append(everybody | readers)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": dict(pods)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": _downloads() if downloads else [],
        },
    }


def _downloads() -> list[Object]:
    plain = [network for network in FORBIDDEN if isinstance(network, IPv4Network)]
    longer = [network for network in FORBIDDEN if isinstance(network, IPv6Network)]
    everybody = [_block("0.0.0.0/0", plain), _block("::/0", [*longer, *map(as_translated, plain)])]
    return [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"to": everybody, "ports": [{"protocol": "TCP"}]},
    ]


def _block(cidr: str, but: Sequence[IPv4Network | IPv6Network]) -> Object:
    return {"ipBlock": {"cidr": cidr, "except": [str(network) for network in but]}}


def _ports(numbers: Sequence[int]) -> list[Object]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]
