from dataclasses import replace

from conch_contracts.names import ModelId
from conch_operator.state import Observed
from testkit.builders.model_deployments import desired_model, engine


def test_the_engines_of_a_model_are_in_the_clusters_order_and_no_others() -> None:
    one, other = desired_model("one"), desired_model("other")
    engines = engine(one, 1), engine(other), engine(one, 0)
    observed = Observed(engines=engines)
    assert observed.engines_of(one.id) == (engines[0], engines[2])
    assert observed.engines_of(other.id) == (engines[1],)
    assert observed.engines_of(ModelId("local/none")) == ()
    assert replace(observed, engines=engines[:1]).engines_of(one.id) == (engines[0],)
