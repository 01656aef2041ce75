from conch_operator.routes.engine_contract import contract_of
from testkit.builders.model_deployments import desired_model


def test_a_cpu_engine_takes_some_batches_at_once() -> None:
    assert contract_of(desired_model()).slots == 64
