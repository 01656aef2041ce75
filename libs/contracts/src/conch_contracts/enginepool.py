"""The EnginePool: one server for many models, of which some are loaded at a time."""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from conch_contracts.modeldeployment import Metadata
from conch_contracts.names import API_VERSION, POOL_KIND, PoolId
from conch_contracts.problems import InvalidObject, Problem, problems_of, without_unknown_fields
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_contracts.spec.fields import MAX_NAME, SHORT_NAME_RULE, SpecPart
from conch_contracts.spec.rule_types import rule


class EnginePool(SpecPart):
    """One server for many models, of which some are loaded at a time."""

    api_version: Literal["conch.dev/v1alpha1"]
    """Always conch.dev/v1alpha1."""
    kind: Literal["EnginePool"]
    """Always EnginePool."""
    metadata: Metadata
    """Its name and namespace."""
    spec: EnginePoolSpec
    """How much room it has, and how models take turns."""

    @rule(
        cel=SHORT_NAME_RULE,
        message=f"metadata.name must be a DNS label of at most {MAX_NAME} characters, without dots: names of what runs "
        "the pool are made from it",
    )
    def _name_is_a_short_label(self) -> bool:
        return True  # Metadata has seen to it.

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


def parse_stored_pool(data: Mapping[str, object]) -> EnginePool:
    """Return the EnginePool that an API server holds, without the fields that nobody here knows.

    A newer version has let them in. Raises InvalidObject for everything else that is wrong.
    """
    return parse_pool(without_unknown_fields(data, EnginePool)[0])
