"""What is written as JSON, whatever size its numbers have."""

import json
from types import SimpleNamespace

import pytest

from conch_kit.json_bytes import json_bytes


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400], ids=["unsigned", "signed", "beyond_floats"])
def test_integers_of_any_size_are_written_exactly(number: int) -> None:
    value = {"é": ("x", {"n": number}), 5: SimpleNamespace(of=[number, 1.5, None])}
    assert json.loads(json_bytes(value, default=vars)) == {"é": ["x", {"n": number}], "5": {"of": [number, 1.5, None]}}


def test_what_is_usual_is_written_as_compactly() -> None:
    assert json_bytes({1: [2**64], "é": "é"}) == json_bytes({1: [1], "é": "é"}).replace(b"[1]", b"[%d]" % 2**64)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        json_bytes({"a": object()})
