"""What a model takes of pictures, as its route tells it."""

from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import ServedName
from conch_contracts.records import Dialect, PictureProfile, Pooling
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


ENCODES = replace(FACTS, encoder=replace(FACTS.encoder, sees=True))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, PictureProfile(max=1)),
        (SAID, PictureProfile(max=1, max_pixels=9, max_bytes=7, allowed_domains=("a.example",))),
        ({"multimodal": {"images": {"max": 0}}}, None),
    ],
)
def test_a_model_of_texts_and_pictures_is_shown_one_at_a_time(
    said: dict[str, Any], found: PictureProfile | None
) -> None:
    route = make_route(desired_model(kind="Embedding", **said), ENCODES, (ServedName("m"),))
    assert (route.pictures, route.encoder.output) == (found, "text_embeds")


def test_the_output_of_a_runtime_that_is_not_ours_is_read_from_its_config() -> None:
    external = {"external": {"grpc": "triton:8001"}}
    route = make_route(desired_model(kind="Embedding", engine=external), ENCODES, (ServedName("m"),))
    assert (route.pictures, route.encoder.output) == (PictureProfile(max=1), None)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, PictureProfile(among_texts=True)),
        (
            SAID,
            PictureProfile(max=2, max_pixels=9, max_bytes=7, allowed_domains=("a.example",), among_texts=True),
        ),
        ({"multimodal": {"images": {"max": 0}}}, None),
    ],
)
def test_a_language_model_that_sees_makes_one_vector_of_messages(
    said: dict[str, Any], found: PictureProfile | None
) -> None:
    model = desired_model(kind="Embedding", **said)
    route = make_route(model, SEES, (ServedName("m"),))
    assert (route.pictures, route.encoder.output, route.encoder.pooling) == (found, None, Pooling.LAST)
    assert blindness(model, SEES) is None
    chosen = make_route(desired_model(kind="Embedding", embedding={"pooling": "mean"}), SEES, (ServedName("m"),))
    assert chosen.encoder.pooling is Pooling.MEAN


def test_a_folder_sees_for_its_own_kind_alone() -> None:
    external = model_deployment(kind="Embedding", engine={"external": {"grpc": "triton:8001"}}).spec
    assert picture_profile(external, SEES, Dialect.ENCODER) is None
    assert picture_profile(model_deployment(kind="Rerank").spec, ENCODES, Dialect.ENCODER) is None
    assert picture_profile(model_deployment().spec, ENCODES, Dialect.TOKENS) is None
    assert make_route(desired_model(kind="Embedding"), FACTS, (ServedName("m"),)).encoder.output is None
    fault = blindness(desired_model(kind="Embedding", **SAID), FACTS)
    assert fault is not None
    assert "expected the model_type llava or clip" in fault.message
    assert blindness(desired_model(kind="Embedding", **SAID), ENCODES) is None


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
