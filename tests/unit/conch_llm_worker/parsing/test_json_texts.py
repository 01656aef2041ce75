import math

import pytest

from conch_llm_worker.parsing.json_texts import json_string, json_value


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "NaN", "-Infinity", "", "{} {}", "'a'"])
def test_what_is_no_json_or_nested_too_deeply_has_no_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_value(text)


def test_numbers_are_floats_however_large() -> None:
    assert json_value("[1, 1e999, 123456789012345678901234567890]") == [1.0, math.inf, 123456789012345678901234567890.0]


def test_half_of_a_pair_stays_as_it_is_written() -> None:
    assert json_string('"a\\ud83d\\ude00b\\ud83d"') == "a😀b\\ud83d"
    with pytest.raises(ValueError, match="no JSON string"):
        json_string("1")
