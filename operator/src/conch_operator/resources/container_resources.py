"""What the containers of an engine's pod get, resource by resource: what its author names, then the chart, then these.

Every container but the engine's has limits of cpu and memory, so that a ResourceQuota on limits lets it in. The engine
has none unless its author names one: how much a model takes is for its author to say.
"""

from typing import Any

from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.engine import REQUESTED_BY_DEFAULT, EngineSpec
from conch_contracts.spec.quantities import quantity_value
from conch_operator.settings import EngineSettings

Object = dict[str, Any]

COPYING = ResourcesSpec(requests={"cpu": "10m", "memory": "32Mi"}, limits={"cpu": "1", "memory": "256Mi"})
"""Of containers that copy or link small files."""
REPORTING = ResourcesSpec(requests={"cpu": "10m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "512Mi"})
"""Of the agent."""
DOWNLOADING = ResourcesSpec(requests={"cpu": "100m", "memory": "128Mi"}, limits={"cpu": "2", "memory": "1Gi"})
"""Of the container that downloads, which checks sums while it does."""
_SERVER_BYTES = 256 * 1024 * 1024
"""Of a server without models, with the shared memory in which it talks to them."""


def engine_resources(engine: EngineSpec) -> Object:
    """Return what an engine's own container gets; a request that nobody names is its limit where there is one."""
    given = engine.resources or ResourcesSpec()
    requests = {name: amount for name, amount in REQUESTED_BY_DEFAULT.items() if name not in (given.limits or {})}
    return _merged(ResourcesSpec(requests=requests), given)


def resources_beside(defaults: ResourcesSpec, settings: EngineSettings, engine: EngineSpec | None = None) -> Object:
    """Return what a container beside an engine gets; None: beside the server of a pool, whose spec says nothing."""
    of_release = ResourcesSpec.model_validate(_merged(defaults, settings.init_resources))
    return _merged(of_release, (engine and engine.init_resources) or ResourcesSpec())


def pool_resources(memory_bytes: int) -> Object:
    """Return what the server of an EnginePool gets, which has room for models of so many bytes.

    It asks for what they take with the server itself. The limit leaves room for a model that turns out larger than was
    thought, and for what one takes while it is loaded.
    """
    asked = memory_bytes + _SERVER_BYTES
    requests = {"cpu": REQUESTED_BY_DEFAULT["cpu"], "memory": str(asked)}
    return {"requests": requests, "limits": {"memory": str(asked + max(memory_bytes // 4, 2 * _SERVER_BYTES))}}


def _merged(defaults: ResourcesSpec, given: ResourcesSpec) -> Object:
    """Return both, by resource; where a default would contradict what is given, it follows it."""
    requests = {**(defaults.requests or {}), **(given.requests or {})}
    limits = {**(defaults.limits or {}), **(given.limits or {})}
    for name in requests.keys() & limits:
        if quantity_value(requests[name]) > quantity_value(limits[name]):
            if name in (given.requests or {}):
                limits[name] = requests[name]
            else:
                requests[name] = limits[name]
    return {kind: amounts for kind, amounts in (("requests", requests), ("limits", limits)) if amounts}
