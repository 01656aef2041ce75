"""Many models in one server: which pool a model belongs to, and how much room a pool has."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from conch_contracts.conditions import Condition
from conch_contracts.spec.fields import Duration, Flag, Integer, ObjectName, ShortName, SpecPart
from conch_contracts.spec.quantities import ByteSize


class PlacementSpec(SpecPart):
    """The server that a model shares with others."""

    pool: ShortName
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
    max_load: Duration = 120.0
    """How long it may take to load a model. After that it has failed; since Triton cannot give a load up, its server is
    started anew then, with the models that were in it. Default: 2m."""
    claims: Annotated[
        tuple[ObjectName, ...], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = ()
    """PersistentVolumeClaims in the pool's namespace, which its pod mounts read-only: models whose `source.pvc` names
    one of them may be placed here. On a cluster only. Default: none."""


class Resident(BaseModel):
    """One model that is loaded."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    name: Annotated[str, Field(max_length=253)]
    """The name of its ModelDeployment."""
    memory_bytes: Annotated[int, Field(ge=0)] | None = None
    """How much memory it takes, as measured."""


class EnginePoolStatus(BaseModel):
    """Written by Conch, ignored on input."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that the rest of the status is about."""
    models: Annotated[int, Field(ge=0)] = 0
    """How many models name this pool."""
    loaded: Annotated[int, Field(ge=0)] = 0
    """How many of them are loaded."""
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    """How much memory these take together, as measured."""
    memory_used: Annotated[str, Field(max_length=20)] = "0Mi"
    """The same for people, in Mi."""
    residents: Annotated[
        tuple[Resident, ...],
        Field(
            max_length=1000,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    """The models that are loaded."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """Ready is True while the pool's server answers, and Applied once that is the one for which the spec asks. Whether
    a model can be asked, its own ModelDeployment says."""
