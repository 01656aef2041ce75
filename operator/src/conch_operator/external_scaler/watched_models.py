"""The models that there are, as watches of the API server tell; what was known goes on counting while it is away."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc

from conch_contracts.conditions import ConditionStatus, ConditionType
from conch_contracts.names import ModelId
from conch_operator.external_scaler.errors import CallRefused
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.desired_models import SpecReader
from conch_operator.state import DesiredModel, Unreadable


class WatchingApi(Protocol):
    """Lists that watches keep."""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call this at every change."""

    async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
        """Return every object of a kind; raises ApiError."""


@dataclass(frozen=True, slots=True)
class WatchedModel:
    """One ModelDeployment."""

    desired: DesiredModel
    ready: bool
    """Whether its status says so: then a request works, now or once an engine has been started for it."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What one reading of the lists came to."""

    models: Mapping[ModelId, DesiredModel]
    unreadable: Mapping[ModelId, Unreadable]
    objects: Mapping[ModelId, Object]


class WatchedModels:
    """Finds a model by its id."""

    def __init__(self, api: WatchingApi, namespaces: Sequence[str | None]) -> None:
        """Look for models in these namespaces; None is everywhere."""
        self._api = api
        self._namespaces = namespaces
        self._specs = SpecReader()
        self._last: _Read | None = None
        self._stale = True
        api.subscribe(self._note_change)

    async def find(self, model: ModelId) -> WatchedModel:
        """Return what is known of a model; raises CallRefused where there is none, or none can be read."""
        known = await self._known()
        if (desired := known.models.get(model)) is not None:
            return WatchedModel(desired, _is_ready(known.objects[model]))
        if (unreadable := known.unreadable.get(model)) is not None:
            message = f"The ModelDeployment {model} cannot be read: {unreadable.message}"
            raise CallRefused(grpc.StatusCode.FAILED_PRECONDITION, message)
        namespace, _, name = model.partition("/")
        message = f"The namespace {namespace} has no ModelDeployment {name}, or this release does not serve it."
        raise CallRefused(grpc.StatusCode.NOT_FOUND, message)

    async def _known(self) -> _Read:
        if self._stale or self._last is None:
            self._stale = False  # what changes from now on is another change
            try:
                self._last = await self._read()
            except ApiError as error:
                self._stale = True
                if self._last is None:
                    message = f"The ModelDeployments cannot be listed yet: {error}"
                    raise CallRefused(grpc.StatusCode.UNAVAILABLE, message) from error
        return self._last

    async def _read(self) -> _Read:
        items: list[Object] = []
        for namespace in self._namespaces:
            items += await self._api.list_watched(MODEL_DEPLOYMENT, namespace)
        wanted = self._specs.read(items)
        models = {model.id: model for model in wanted.desired.models}
        return _Read(models, wanted.desired.unreadable, wanted.objects)

    def _note_change(self) -> None:
        self._stale = True


def _is_ready(item: Object) -> bool:
    """Return whether an engine answers, or requests can count on one; the registry does not matter here."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(
        (one.get("type"), one.get("status")) == (ConditionType.ENGINE_READY, ConditionStatus.TRUE) for one in conditions
    )
