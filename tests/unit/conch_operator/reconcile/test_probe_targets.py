from dataclasses import replace

from conch_operator.reconcile.probe_targets import key_of, targets_of
from conch_operator.state import Desired
from testkit.builders.model_deployments import desired_model, engine

MODEL = desired_model()


def test_a_target_tells_how_often_its_engine_was_started_again() -> None:
    again = replace(engine(MODEL).engine, incarnation=7, restarts=3)
    assert targets_of(Desired((MODEL,)), [again], {})[key_of(again)].restarts == 3
