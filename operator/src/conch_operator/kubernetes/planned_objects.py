"""What the engines of each model need on the cluster, made once for each edit and number of engines.

A round asks for it anew, of each model, and most have not changed since the last one: `SpecReader` gives the same
ModelDeployment for the same spec.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import SPEC_HASH_LABEL, ModelId
from conch_operator.agent.tokens import AgentTokens
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, Object, kind_of
from conch_operator.kubernetes.api.owned_objects import Key, key_of
from conch_operator.resources.engine_objects import make_engine_objects
from conch_operator.resources.metadata import template_hash
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel


@dataclass(frozen=True, slots=True)
class ObjectsTogether:
    """A Deployment and what belongs to it."""

    objects: tuple[Object, ...]
    marks: tuple[tuple[Key, str], ...]
    """What names each of them, and the hash that it has as a label."""
    key: Key
    """What names the Deployment."""
    deployment: Object
    template: str
    """The hash of its pods' template."""

    @classmethod
    def of(cls, objects: Sequence[Object]) -> "ObjectsTogether":
        """Return these objects, of which one is a Deployment."""
        deployment = next(one for one in objects if kind_of(one) is DEPLOYMENT)
        marks = tuple((key_of(one), one["metadata"]["labels"][SPEC_HASH_LABEL]) for one in objects)
        return cls(tuple(objects), marks, key_of(deployment), deployment, template_hash(deployment))


@dataclass(frozen=True, slots=True)
class _Planned:
    deployment: ModelDeployment
    uid: str
    replicas: int
    made: ObjectsTogether

    def is_of(self, model: DesiredModel) -> bool:
        """Return whether this was made for the very same."""
        return self.deployment is model.deployment and (self.uid, self.replicas) == (model.uid, model.replicas)


class PlannedObjects:
    """Makes objects and remembers them; nobody may change what it returns."""

    def __init__(self, settings: EngineSettings, tokens: AgentTokens) -> None:
        self._settings = settings
        self._tokens = tokens
        self._known: dict[ModelId, _Planned] = {}

    def of(self, model: DesiredModel) -> ObjectsTogether:
        """Return what runs a model's engines; raises NotSupported."""
        known = self._known.get(model.id)
        if known is None or not known.is_of(model):
            made = ObjectsTogether.of(make_engine_objects(model, self._settings, self._tokens))
            known = self._known[model.id] = _Planned(model.deployment, model.uid, model.replicas, made)
        return known.made

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget what was made for all others."""
        self._known = {model: planned for model, planned in self._known.items() if model in models}
