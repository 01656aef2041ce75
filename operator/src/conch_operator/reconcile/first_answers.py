"""Pure: models that have no engine yet, to which one answers since the round that looked."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from conch_contracts.names import Digest, ModelId
from conch_operator.reconcile.plan import Plan
from conch_operator.routes.route import own_engine
from conch_operator.state import ClusterEngine, EngineName, EnginePhase, Observed, Probe, ProbeVerdict, RoutedModel


def awaited_engines(steps: Plan, observed: Observed) -> Sequence[ClusterEngine]:
    """Return the engines of models that have a route and no engine in it."""
    bare = {model for model, (_, engines) in steps.routes.items() if not engines}
    return [each.engine for each in observed.engines if each.engine.model in bare]


def first_answers(
    steps: Plan,
    specs: Mapping[ModelId, str],
    engines: Iterable[ClusterEngine],
    verdict: Callable[[ClusterEngine], Probe],
    tokenizer_of: Callable[[EngineName], Digest | None],
) -> Mapping[ModelId, RoutedModel]:
    """Return the routes of models without an engine with those that answer by now; the plan stands but for these.

    Only an engine of which nothing is left to decide counts: it is of its model's spec, whose hash is in `specs`, has
    the tokenizer of its route, and is to stay. About all others the next round decides.
    """
    going = {*steps.withdraw, *steps.stop, *steps.restart}
    found: dict[ModelId, RoutedModel] = {}
    for engine in engines:
        routed = steps.routes.get(engine.model)
        if engine.name in going or routed is None or routed[1]:
            continue
        if engine.phase not in (EnginePhase.INITIALIZED, EnginePhase.RUNNING):
            continue
        if engine.spec_hash != specs.get(engine.model) or tokenizer_of(engine.name) != routed[0].tokenizer_digest:
            continue
        if verdict(engine).verdict is ProbeVerdict.READY:
            route, others = found.get(engine.model, routed)
            found[engine.model] = route, (*others, own_engine(engine))
    return found
