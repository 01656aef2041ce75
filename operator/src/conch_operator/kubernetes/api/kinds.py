"""Which kinds of object the operator reads and writes, and where the API serves them."""

from dataclasses import dataclass
from typing import Any

from conch_contracts.names import GROUP, KIND, PLURAL, POOL_KIND, POOL_PLURAL, VERSION

Object = dict[str, Any]
"""An object of the API, or a list of them, as JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of namespaced object."""

    group: str
    """Empty for the core group."""
    version: str
    name: str
    plural: str

    @property
    def api_version(self) -> str:
        """Return what objects of this kind say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of one object, or of all in a namespace or in all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root, *(["namespaces", namespace] if namespace else []), self.plural]
        return "/".join([*parts, *([name] if name else []), *([subresource] if subresource else [])])


MODEL_DEPLOYMENT = Kind(GROUP, VERSION, KIND, PLURAL)
ENGINE_POOL = Kind(GROUP, VERSION, POOL_KIND, POOL_PLURAL)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
CORE_EVENT = Kind("", "v1", "Event", "events")
"""The same objects as the nodes write them; these can be chosen by the object that they are about."""
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

OWNED_KINDS = (DEPLOYMENT, DISRUPTION_BUDGET)
"""What is made for a ModelDeployment, beside a NETWORK_POLICY where the cluster's settings want one."""

_BY_TYPE = {
    (kind.api_version, kind.name): kind
    for kind in (*OWNED_KINDS, NETWORK_POLICY, POD, EVENT, LEASE, MODEL_DEPLOYMENT, ENGINE_POOL)
}


def kind_of(made: Object) -> Kind:
    """Return the kind of an object."""
    return _BY_TYPE[(made["apiVersion"], made["kind"])]


def owned_kinds(*, network_policies: bool) -> tuple[Kind, ...]:
    """Return the kinds that are made for a ModelDeployment."""
    return (*OWNED_KINDS, NETWORK_POLICY) if network_policies else OWNED_KINDS
