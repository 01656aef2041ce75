from decimal import Decimal
from typing import Any

import grpc
import pytest

from conch_contracts.names import ModelId
from conch_operator.external_scaler.asked_model import AskedModel, asked_model, per_engine
from conch_operator.external_scaler.errors import CallRefused
from conch_operator.external_scaler.messages import ScaledObjectRef
from testkit.builders.model_deployments import desired_model

CHAT = ModelId("models/chat")


@pytest.mark.parametrize(
    ("metadata", "asked"),
    [
        ({}, AskedModel(CHAT)),
        ({"scalerAddress": "a:1", "enableTLS": "false", "unsafeSsl": "true"}, AskedModel(CHAT)),
        ({"model": "tiny"}, AskedModel(ModelId("models/tiny"))),
        ({"target": "0.5"}, AskedModel(CHAT, Decimal("0.5"))),
        ({"target": "1"}, AskedModel(CHAT, Decimal(1))),
    ],
)
def test_a_trigger_means_a_model_of_its_own_namespace(metadata: dict[str, str], asked: AskedModel) -> None:
    assert asked_model(ScaledObjectRef("chat", "models", metadata)) == asked


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        (ScaledObjectRef("chat", "models", {"modle": "tiny"}), "has modle, which means nothing here.*model, target"),
        (ScaledObjectRef("chat", "models", {"model": ""}), "names no ScaledObject"),
        (ScaledObjectRef("", "models"), "names no ScaledObject"),
        (ScaledObjectRef("chat", ""), "names no ScaledObject"),
        (ScaledObjectRef("chat", "models", {"model": "other/tiny"}), "in the ScaledObject's own namespace"),
        *(
            (ScaledObjectRef("chat", "models", {"target": target}), "more than 0 and at most 1")
            for target in ("0", "-0.1", "1.01", "70%", "", "NaN", "sNaN", "Infinity", "1" * 100)
        ),
    ],
)
def test_what_means_no_model_is_refused(ref: ScaledObjectRef, why: str) -> None:
    with pytest.raises(CallRefused, match=why) as refused:
        asked_model(ref)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("spec", "target", "sequences"),
    [
        ({"engine": {"cpu": {"maxBatchSize": 4}}}, None, 16 * 0.7),
        ({"engine": {"cpu": {"maxBatchSize": 4}}}, Decimal("0.5"), 8.0),
        ({"engine": {"cpu": {"maxBatchSize": 1}}}, Decimal("0.1"), 1.0),
        ({"kind": "Embedding"}, None, 256 * 0.8),
    ],
)
def test_an_engine_is_for_the_part_of_its_slots_that_conch_would_fill(
    spec: dict[str, Any], target: Decimal | None, sequences: float
) -> None:
    assert per_engine(desired_model(**spec), AskedModel(CHAT, target)) == pytest.approx(sequences)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"scaling": {"maxReplicas": 2}}, "has spec.scaling, so Conch decides"),
        ({"kind": "Embedding", "placement": {"pool": "encoders"}}, "is in an EnginePool"),
        ({"engine": {"external": {"grpc": "example.com:8001", "dialect": "tokens"}}}, "started by somebody else"),
    ],
)
def test_a_model_of_which_nobody_else_may_decide_is_refused(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(CallRefused, match=why) as refused:
        per_engine(desired_model(**spec), AskedModel(CHAT))
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
