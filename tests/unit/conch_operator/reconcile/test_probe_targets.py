from dataclasses import replace

import pytest

from conch_operator.reconcile.probe_targets import external_targets, key_of, targets_of
from conch_operator.state import Desired, EnginePhase
from testkit.builders.model_deployments import desired_model, engine

MODEL = desired_model()


def test_each_start_of_an_engine_is_asked_by_itself_and_says_whose_it_is() -> None:
    first = engine(MODEL).engine
    again = replace(first, incarnation=7)
    targets = targets_of({MODEL.id: MODEL.deployment.spec}, {}, [first, again])
    assert [targets[key_of(one)].engine for one in (first, again)] == [first.name] * 2


@pytest.mark.parametrize("phase", EnginePhase)
def test_an_engine_is_asked_while_it_may_answer(phase: EnginePhase) -> None:
    asked = targets_of({}, {}, [engine(MODEL, phase=phase).engine])
    assert bool(asked) == (phase in (EnginePhase.INITIALIZED, EnginePhase.RUNNING, EnginePhase.LEAVING))


def test_of_engines_only_those_of_someone_else_are_asked_by_their_model() -> None:
    elsewhere = desired_model("elsewhere", engine={"external": {"grpc": "10.0.0.1:8001", "dialect": "tokens"}})
    targets = external_targets(Desired((MODEL, elsewhere)), {elsewhere.id: (1, 2)})
    assert {model: (one.address, one.prompt_ids) for model, one in targets.items()} == {
        elsewhere.id: ("10.0.0.1:8001", (1, 2))
    }
