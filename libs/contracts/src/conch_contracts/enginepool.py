"""The EnginePool: one engine for many models, of which some are loaded at a time."""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from conch_contracts.modeldeployment import Metadata
from conch_contracts.names import API_VERSION, POOL_KIND, PoolId
from conch_contracts.problems import InvalidObject, Problem, problems_of
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_contracts.spec.fields import SpecPart


class EnginePool(SpecPart):
    """One engine for many models."""

    api_version: Literal["conch.dev/v1alpha1"]
    """Always conch.dev/v1alpha1."""
    kind: Literal["EnginePool"]
    """Always EnginePool."""
    metadata: Metadata
    """Its name and namespace."""
    spec: EnginePoolSpec
    """How much room it has, and how models take turns."""

    @property
    def pool_id(self) -> PoolId:
        """Return `namespace/name`."""
        return PoolId(f"{self.metadata.namespace}/{self.metadata.name}")


def parse_pool(data: Mapping[str, object]) -> EnginePool:
    """Return the EnginePool that this data describes; raises InvalidObject."""
    if data.get("apiVersion") != API_VERSION:
        found = data.get("apiVersion", "missing")
        raise InvalidObject((Problem(("apiVersion",), f"expected {API_VERSION} for kind {POOL_KIND}, found {found}"),))
    try:
        return EnginePool.model_validate(data)
    except ValidationError as error:
        raise InvalidObject(problems_of(error, EnginePool)) from error
