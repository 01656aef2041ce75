"""The bytes of externalscaler.proto, written by hand: KEDA reads these and no others."""

import struct

import grpc
import pytest

from conch_operator.external_scaler.errors import CallRefused
from conch_operator.external_scaler.messages import (
    MetricsRequest,
    ScaledObjectRef,
    active,
    metric_spec,
    metric_value,
    read_metrics_request,
    read_ref,
)

_REF = b"\x0a\x04chat\x12\x06models\x1a\x0d\x0a\x05model\x12\x04tiny"


def test_a_scaled_object_is_read() -> None:
    assert read_ref(_REF) == ScaledObjectRef("chat", "models", {"model": "tiny"})
    assert read_ref(b"") == ScaledObjectRef("", "")


def test_a_question_for_a_metric_is_read() -> None:
    raw = b"\x0a" + bytes([len(_REF)]) + _REF + b"\x12\x03abc"
    assert read_metrics_request(raw) == MetricsRequest(ScaledObjectRef("chat", "models", {"model": "tiny"}), "abc")


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert read_ref(_REF + b"\x22\x01x") == read_ref(_REF)


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(CallRefused, match="The message is no ScaledObjectRef") as refused:
        read_ref(b"\x0a\xff")
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_answers_have_the_old_integers_and_the_floats() -> None:
    assert (active(result=True), active(result=False)) == (b"\x08\x01", b"")
    assert metric_spec("m", 11.2) == b"\x0a\x0e\x0a\x01m\x10\x0b\x19" + struct.pack("<d", 11.2)
    assert metric_value("m", 3) == b"\x0a\x0e\x0a\x01m\x10\x03\x19" + struct.pack("<d", 3.0)


def test_an_integer_target_is_at_least_one() -> None:
    assert metric_spec("m", 1.0).startswith(b"\x0a\x0e\x0a\x01m\x10\x01")
