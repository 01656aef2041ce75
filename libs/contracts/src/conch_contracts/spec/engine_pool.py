"""Many models on one engine: which pool a model belongs to, and how much room a pool has."""

from typing import Annotated

from pydantic import Field

from conch_contracts.spec.fields import Duration, Flag, Integer, ObjectName, SpecPart
from conch_contracts.spec.quantities import ByteSize

NOT_ON_A_CLUSTER = (
    "spec.placement: models share an engine under conch up only, not on a cluster. Remove it; with spec.scaling and "
    "minReplicas 0 the model has engines of its own, and none while nobody needs it."
)
"""What whoever wants that on a cluster is told."""


class PlacementSpec(SpecPart):
    """The engine that a model shares with others."""

    pool: ObjectName
    """The name of an EnginePool in the same namespace."""
    pinned: Flag = False
    """Whether the model stays loaded, whoever else wants its room. Default: false."""
    size_hint: ByteSize | None = None
    """How much memory the model takes, such as 200Mi, until that was measured. Default: 1.3 times its weights, and
    40Mi."""


class EnginePoolSpec(SpecPart):
    """How much room there is for models, and how they take turns."""

    memory: ByteSize
    """How much memory all models that are loaded may take together, such as 2Gi. The server itself takes some 50Mi
    more."""
    max_models: Annotated[Integer, Field(ge=1, le=1000)] | None = None
    """How many models may be loaded at once. Default: as many as have room in `memory`."""
    max_wait: Duration = 2.0
    """How long a model that somebody waits for is put off while all that are loaded have something to do; after that
    the one goes that was used longest ago. Default: 2s."""
    min_resident: Duration = 5.0
    """How long a model that was loaded for somebody stays at least. Default: 5s."""
