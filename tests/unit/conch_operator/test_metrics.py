from prometheus_client import CollectorRegistry

from conch_operator.metrics import EnginesOfModel, ScalingMetrics


def test_a_model_that_has_gone_is_shown_no_more() -> None:
    registry = CollectorRegistry()
    metrics = ScalingMetrics.on(registry)
    metrics.show([EnginesOfModel("a", 2, 1, known=False), EnginesOfModel("b", 1, 1, known=True)])
    metrics.show([EnginesOfModel("b", 3, 1, known=True)])
    names = ("conch_operator_engines_wanted", "conch_operator_engines_ready")
    shown = {name: [registry.get_sample_value(name, {"model": model}) for model in "ab"] for name in names}
    assert shown == {names[0]: [None, 3.0], names[1]: [None, 1.0]}
    assert registry.get_sample_value("conch_operator_scaling_unknown") == 0.0
