from dataclasses import replace

from conch_operator.kubernetes.api.owned_objects import key_of
from conch_operator.kubernetes.planned_objects import PlannedObjects
from conch_operator.resources.engine_objects import make_engine_objects
from testkit.builders.every_runtime import SETTINGS, TOKENS
from testkit.builders.model_deployments import desired_model


def test_what_has_not_changed_is_not_made_again() -> None:
    planned, model = PlannedObjects(SETTINGS, TOKENS), desired_model()
    made = planned.of(model)
    assert made.objects == make_engine_objects(model, SETTINGS, TOKENS)
    assert (made.deployment["kind"], made.key) == ("Deployment", key_of(made.deployment))
    assert [key for key, _ in made.marks] == [key_of(one) for one in made.objects]
    assert planned.of(replace(model, created=2)) is made


def test_an_edit_another_object_and_another_number_of_engines_are_made_anew() -> None:
    planned, model = PlannedObjects(SETTINGS, TOKENS), desired_model()
    planned.of(model)
    others = (
        desired_model(engine={"cpu": {"maxBatchSize": 3}}),
        replace(model, uid="made again under the same name"),
        desired_model(replicas=3),
    )
    for other in others:
        assert planned.of(other).objects == make_engine_objects(other, SETTINGS, TOKENS)


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    planned, model = PlannedObjects(SETTINGS, TOKENS), desired_model()
    made = planned.of(model)
    planned.keep_only([model.id])
    assert planned.of(model) is made
    planned.keep_only([])
    assert planned.of(model) is not made
