"""Of which models nothing has changed since their status was made: a round over many costs what has changed.

What is said of a model changes by the time alone once, when its progress deadline has passed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from conch_contracts.names import ModelId
from conch_contracts.records import needed_pools
from conch_operator.reconcile.readiness import PolicyInput
from conch_operator.state import SourceFacts


@dataclass(frozen=True, slots=True)
class _Said:
    seen: tuple[object, ...]
    status: object
    until: datetime | None


class UnchangedModels:
    """Remembers from what the status of each model was made."""

    def __init__(self) -> None:
        self._said: dict[ModelId, _Said] = {}

    def holds(self, given: PolicyInput, status: object, now: datetime) -> bool:
        """Return whether this very status was made from the same, and its time has not run out."""
        said = self._said.get(given.model.id)
        if said is None or said.status is not status or (said.until is not None and now >= said.until):
            return False
        return said.seen == _seen(given)

    def note(self, given: PolicyInput, status: object, until: datetime | None) -> None:
        """Remember from what the status of a model was made, and until when it may stand; None: for good."""
        self._said[given.model.id] = _Said(_seen(given), status, until)

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget all other models."""
        self._said = {model: said for model, said in self._said.items() if model in models}


def _seen(given: PolicyInput) -> tuple[object, ...]:
    """Return all that a status is made from but for the time and the status before."""
    model, observed, published = given.model, given.observed, given.published
    facts, route = observed.sources.get(model.id), observed.routes.get(model.id)
    return (
        model,
        given.claim,
        facts,
        observed.engines_of(model.id),
        observed.external.get(model.id),
        observed.replaced.get(model.id),
        observed.held_engines.get(model.id),
        None if route is None else route.tokenizer_digest,
        observed.unstored.get(facts.digest) if isinstance(facts, SourceFacts) else None,
        observed.rejected.get(model.id),
        observed.specs.get(model.id),
        model.id in observed.routed,
        [bool(observed.workers.get(pool)) for pool in needed_pools(model.deployment.spec.kind)],
        model.id in published.models,
        published.error,
    )
