from dataclasses import replace

import pytest

from conch_contracts.names import ServedName
from conch_operator.routes.known_routes import KnownRoutes
from conch_operator.routes.route import make_route, scaling_fields
from conch_operator.state import DesiredModel, Scaled
from testkit.builders.model_deployments import FACTS, desired_model

MODEL = desired_model()
NAMES = (ServedName("tiny"),)
SCALED = replace(MODEL, scaled=Scaled(1, wakes=True, order=1))


def test_the_same_is_made_once() -> None:
    known = KnownRoutes()
    first = known.make(MODEL, FACTS, NAMES, [None])
    assert first == make_route(MODEL, FACTS, NAMES, [None])
    assert known.make(SCALED, replace(FACTS), (ServedName("tiny"),), [None]) is first
    scaled = known.with_scaling(first, SCALED)
    assert scaled == first.model_copy(update=scaling_fields(SCALED))
    again = replace(SCALED, scaled=Scaled(1, wakes=True, order=2))
    assert known.with_scaling(known.make(again, FACTS, NAMES, [None]), again) is scaled


@pytest.mark.parametrize(
    ("model", "facts", "names", "started"),
    [
        (desired_model(), FACTS, NAMES, [None]),
        (replace(MODEL, created=2), FACTS, NAMES, [None]),
        (MODEL, replace(FACTS, vocab_size=99), NAMES, [None]),
        (MODEL, FACTS, (ServedName("other"),), [None]),
        (MODEL, FACTS, NAMES, [64]),
    ],
    ids=["spec", "age", "folder", "names", "engines"],
)
def test_what_is_made_from_something_else_is_made_anew(
    model: DesiredModel, facts: object, names: tuple[ServedName, ...], started: list[int | None]
) -> None:
    known = KnownRoutes()
    first = known.make(MODEL, FACTS, NAMES, [None])
    made = known.make(model, facts, names, started)  # type: ignore[arg-type]
    assert made is not first
    assert made == make_route(model, facts, names, started)  # type: ignore[arg-type]


def test_another_word_about_its_engines_is_another_route() -> None:
    known = KnownRoutes()
    route = known.make(MODEL, FACTS, NAMES, [])
    asleep = replace(MODEL, scaled=Scaled(0, wakes=True, start_s=3.0))
    assert known.with_scaling(route, SCALED).start_s is None
    assert known.with_scaling(route, asleep).start_s == 3.0


def test_models_that_have_gone_are_forgotten() -> None:
    known = KnownRoutes()
    route = known.make(MODEL, FACTS, NAMES, [])
    known.keep_only({MODEL.id})
    assert known.make(MODEL, FACTS, NAMES, []) is route
    known.keep_only(())
    assert known.make(MODEL, FACTS, NAMES, []) is not route
