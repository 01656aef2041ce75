"""Pure: which model keeps a served name that several models want, and which is the default of its kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import ModelKind, Route
from conch_operator.state import Desired, DesiredModel, Observed


@dataclass(frozen=True, slots=True)
class NameClaim:
    """Which served names a model keeps, and to whom it lost the others."""

    kept: tuple[ServedName, ...]
    lost: Mapping[ServedName, ModelId]
    other_default: ModelId | None = None
    """The older model that answers requests without a name, where this one wants to as well."""
    deleted: frozenset[ModelId] = frozenset()
    """Those that it lost names to and that are gone: their names are kept for a minute."""

    def lost_names(self) -> str:
        """Return in words which names it lost, and to whom."""
        return ", ".join(
            f"{name} (kept for {owner} for a minute, since that was just deleted)"
            if owner in self.deleted
            else f"{name} (held by {owner})"
            for name, owner in self.lost.items()
        )


def claims_of(desired: Desired, observed: Observed) -> dict[ModelId, NameClaim]:
    """Return who keeps which served name.

    A name that is served stays with its model, also when that is made again within a moment, and a model that cannot be
    read keeps those that it is served under.
    """
    served = {name: owner for owner, route in observed.routes.items() for name in route.served_names}
    wanted = {model.id: frozenset(names_of(model, desired)) for model in desired.models}
    held = {
        name: owner
        for name, owner in (dict(observed.reserved) | _still_there(served, desired)).items()
        if owner not in wanted or name in wanted[owner]
    }
    return claim_names(desired, held)


def claim_names(
    desired: Desired, held: Mapping[ServedName, ModelId] = MappingProxyType({})
) -> dict[ModelId, NameClaim]:
    """Give each served name to the model that holds it, else to the oldest that wants it.

    Of two equally old ones the smaller id wins. Gateways choose between defaults of one kind in the same way.
    """
    owners: dict[ServedName, ModelId] = dict(held)
    deleted = frozenset(owners.values()) - {model.id for model in desired.models} - desired.unreadable.keys()
    claims: dict[ModelId, NameClaim] = {}
    defaults: dict[ModelKind, ModelId] = {}
    for model in sorted(desired.models, key=lambda model: (model.created, model.id)):
        names = names_of(model, desired)
        lost = {name: owners[name] for name in names if owners.get(name, model.id) != model.id}
        kept = tuple(name for name in names if name not in lost)
        owners.update(dict.fromkeys(kept, model.id))
        spec = model.deployment.spec
        default = defaults.setdefault(spec.kind, model.id) if spec.default else model.id
        claims[model.id] = NameClaim(kept, lost, None if default == model.id else default, deleted)
    return claims


def names_of(model: DesiredModel, desired: Desired) -> tuple[ServedName, ...]:
    """Return the names that a model wants to be served under."""
    names = model.deployment.served_names
    if not desired.namespaced:
        return names
    own = f"{model.namespace}/"
    return tuple(dict.fromkeys(name if name.startswith(own) else ServedName(f"{own}{name}") for name in names))


def names_gone(desired: Desired, routes: Mapping[ModelId, Route]) -> dict[ServedName, ModelId]:
    """Return the names that are still served of models that nobody wants any more."""
    there = {model.id for model in desired.models} | desired.unreadable.keys()
    return {name: owner for owner, route in routes.items() if owner not in there for name in route.served_names}


def names_awaited(desired: Desired, routes: Mapping[ModelId, Route]) -> dict[ModelId, frozenset[ServedName]]:
    """Return for each model the names that it wants and is not served under."""
    served = {owner: frozenset(route.served_names) for owner, route in routes.items()}
    return {
        model.id: frozenset(names_of(model, desired)) - served.get(model.id, frozenset()) for model in desired.models
    }


def _still_there(served: Mapping[ServedName, ModelId], desired: Desired) -> dict[ServedName, ModelId]:
    there = {model.id for model in desired.models} | desired.unreadable.keys()
    return {name: owner for name, owner in served.items() if owner in there}
