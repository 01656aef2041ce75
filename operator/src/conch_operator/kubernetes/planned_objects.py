"""What the engines of each model need on the cluster, made once for each edit and number of engines.

A round asks for it anew, of each model, and most have not changed since the last one: `SpecReader` gives the same
ModelDeployment for the same spec.
"""

from collections.abc import Collection
from dataclasses import dataclass

from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import ModelId
from conch_operator.agent.tokens import AgentTokens
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.resources.engine_objects import make_engine_objects
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel


@dataclass(frozen=True, slots=True)
class _Planned:
    deployment: ModelDeployment
    uid: str
    replicas: int
    objects: tuple[Object, ...]

    def is_of(self, model: DesiredModel) -> bool:
        """Return whether this was made for the very same."""
        return self.deployment is model.deployment and (self.uid, self.replicas) == (model.uid, model.replicas)


class PlannedObjects:
    """Makes objects and remembers them; nobody may change what it returns."""

    def __init__(self, settings: EngineSettings, tokens: AgentTokens) -> None:
        self._settings = settings
        self._tokens = tokens
        self._known: dict[ModelId, _Planned] = {}

    def of(self, model: DesiredModel) -> tuple[Object, ...]:
        """Return what runs a model's engines; raises NotSupported."""
        known = self._known.get(model.id)
        if known is None or not known.is_of(model):
            made = make_engine_objects(model, self._settings, self._tokens)
            known = self._known[model.id] = _Planned(model.deployment, model.uid, model.replicas, made)
        return known.objects

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget what was made for all others."""
        self._known = {model: planned for model, planned in self._known.items() if model in models}
