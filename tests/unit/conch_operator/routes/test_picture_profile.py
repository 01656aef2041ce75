"""What a model takes of pictures, as its route tells it."""

from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import ServedName
from conch_contracts.records import Dialect, PictureProfile
from conch_operator.routes.picture_profile import blindness, picture_profile
from conch_operator.routes.route import make_route
from testkit.builders.model_deployments import FACTS, desired_model, model_deployment

SEES = replace(FACTS, sees=True)
SAID = {"multimodal": {"images": {"max": 2, "maxPixels": 9, "maxBytes": 7, "allowedDomains": ["a.example"]}}}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, PictureProfile()),
        ({"multimodal": {}}, PictureProfile()),
        (SAID, PictureProfile(max=2, max_pixels=9, max_bytes=7, allowed_domains=("a.example",))),
        ({"multimodal": {"images": {"max": 0}}}, None),
    ],
)
def test_a_model_that_sees_takes_what_its_deployment_says(said: dict[str, Any], found: PictureProfile | None) -> None:
    model = desired_model(**said)
    assert make_route(model, SEES, (ServedName("m"),)).pictures == found
    assert make_route(model, FACTS, (ServedName("m"),)).pictures is None


@pytest.mark.parametrize(
    ("dialect", "sees"),
    [
        (Dialect.TOKENS, True),
        (Dialect.VLLM, True),
        (Dialect.TENSORRTLLM, False),
        (Dialect.FASTERTRANSFORMER, False),
    ],
)
def test_only_some_workers_can_show_pictures_to_an_engine(dialect: Dialect, sees: bool) -> None:
    assert (picture_profile(model_deployment().spec, SEES, dialect) is not None) is sees


def test_encoders_see_nothing_yet() -> None:
    assert picture_profile(model_deployment(kind="Embedding").spec, SEES, Dialect.ENCODER) is None


def test_pictures_for_a_model_that_is_blind_are_a_fault_of_its_deployment() -> None:
    fault = blindness(desired_model(**SAID), FACTS)
    assert fault is not None
    assert fault.reason is Reason.FILES_INVALID
    assert "Remove spec.multimodal" in fault.message
    assert str(FACTS.folder) in fault.message
    assert blindness(desired_model(**SAID), SEES) is None
    assert blindness(desired_model(), FACTS) is None
    assert blindness(desired_model(multimodal={"images": {"max": 0}}), FACTS) is None


@pytest.mark.parametrize("dialect", ["tensorrtllm", "fastertransformer"])
def test_pictures_for_an_engine_that_takes_none_are_a_fault_too(dialect: str) -> None:
    external = {"external": {"grpc": "triton:8001", "dialect": dialect}}
    fault = blindness(desired_model(engine=external, **SAID), SEES)
    assert fault is not None
    assert fault.reason is Reason.SPEC_INVALID
    assert f"dialect {dialect} takes text alone" in fault.message
    assert blindness(desired_model(engine=external), SEES) is None
