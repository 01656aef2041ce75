"""Routes that rounds before made: the very same again, as long as all is the same from which they are made.

A round asks for the route of each model, and of most nothing has changed; who writes them sees by the object that it is
no other one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import Route
from conch_operator.routes.route import make_route, scaling_fields
from conch_operator.state import DesiredModel, SourceFacts


@dataclass(frozen=True, slots=True)
class _Made:
    deployment: ModelDeployment
    facts: SourceFacts
    names: tuple[ServedName, ...]
    started: Sequence[int | None]
    created: int
    route: Route


@dataclass(frozen=True, slots=True)
class _Scaled:
    route: Route
    fields: dict[str, Any]
    scaled: Route


class KnownRoutes:
    """Makes routes, and remembers them."""

    def __init__(self) -> None:
        self._made: dict[ModelId, _Made] = {}
        self._scaled: dict[ModelId, _Scaled] = {}

    def make(
        self, model: DesiredModel, facts: SourceFacts, names: tuple[ServedName, ...], started: Sequence[int | None]
    ) -> Route:
        """Return what `make_route` does."""
        made = self._made.get(model.id)
        if (
            made is None
            or made.deployment is not model.deployment
            or (made.facts, made.names, made.started, made.created) != (facts, names, started, model.created)
        ):
            route = make_route(model, facts, names, started)
            made = self._made[model.id] = _Made(model.deployment, facts, names, started, model.created, route)
        return made.route

    def with_scaling(self, route: Route, model: DesiredModel) -> Route:
        """Return a route that also says whether engines start for a request."""
        fields, known = scaling_fields(model), self._scaled.get(model.id)
        if known is None or known.route is not route or known.fields != fields:
            known = self._scaled[model.id] = _Scaled(route, fields, route.model_copy(update=fields))
        return known.scaled

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget those of all other models."""
        self._made = {model: made for model, made in self._made.items() if model in models}
        self._scaled = {model: scaled for model, scaled in self._scaled.items() if model in models}
