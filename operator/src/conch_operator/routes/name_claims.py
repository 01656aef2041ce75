"""Pure: which model keeps a served name that several models want, and which is the default of its kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import ModelKind
from conch_operator.state import Desired, DesiredModel, Observed


@dataclass(frozen=True, slots=True)
class NameClaim:
    """Which served names a model keeps, and to whom it lost the others."""

    kept: tuple[ServedName, ...]
    lost: Mapping[ServedName, ModelId]
    other_default: ModelId | None = None
    """The older model that answers requests without a name, where this one wants to as well."""


def claims_of(desired: Desired, observed: Observed) -> dict[ModelId, NameClaim]:
    """Return who keeps which served name; a model that cannot be read keeps those that it is served under."""
    held = {
        name: model
        for model in desired.unreadable
        if (route := observed.routes.get(model)) is not None
        for name in route.served_names
    }
    return claim_names(desired.models, held)


def claim_names(
    models: Iterable[DesiredModel], held: Mapping[ServedName, ModelId] = MappingProxyType({})
) -> dict[ModelId, NameClaim]:
    """Give each served name to the oldest model that wants it; of two equally old ones the smaller id wins.

    Gateways choose between defaults of one kind in the same way.
    """
    owners: dict[ServedName, ModelId] = dict(held)
    claims: dict[ModelId, NameClaim] = {}
    defaults: dict[ModelKind, ModelId] = {}
    for model in sorted(models, key=lambda model: (model.created, model.id)):
        names = model.deployment.served_names
        lost = {name: owners[name] for name in names if name in owners}
        kept = tuple(name for name in names if name not in owners)
        owners.update(dict.fromkeys(kept, model.id))
        spec = model.deployment.spec
        default = defaults.setdefault(spec.kind, model.id) if spec.default else model.id
        claims[model.id] = NameClaim(kept, lost, None if default == model.id else default)
    return claims
