from dataclasses import replace

from conch_operator.reconcile.probe_targets import key_of, targets_of
from testkit.builders.model_deployments import desired_model, engine

MODEL = desired_model()


def test_each_start_of_an_engine_is_asked_by_itself_and_says_whose_it_is() -> None:
    first = engine(MODEL).engine
    again = replace(first, incarnation=7)
    targets = targets_of({MODEL.id: MODEL.deployment.spec}, {}, [first, again])
    assert [targets[key_of(one)].engine for one in (first, again)] == [first.name] * 2
