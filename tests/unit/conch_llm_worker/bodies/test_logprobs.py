import math

from conch_llm_worker.bodies.logprobs import chat_logprobs, completion_logprobs
from conch_llm_worker.generation.choice_update import TokenEntry
from testkit.models.vocabularies import byte_level

VOCABULARY = byte_level()
WHOLE = TokenEntry(0, 0x61, -0.5, (0x61, 0x62), (-0.5, -1.5))
PART = TokenEntry(1, 0xE4, -0.25, (), ())


def test_chat_form_names_text_bytes_and_alternatives() -> None:
    assert chat_logprobs([WHOLE], VOCABULARY) == {
        "content": [
            {
                "token": "a",
                "logprob": -0.5,
                "bytes": [0x61],
                "top_logprobs": [
                    {"token": "a", "logprob": -0.5, "bytes": [0x61]},
                    {"token": "b", "logprob": -1.5, "bytes": [0x62]},
                ],
            }
        ],
        "refusal": None,
    }


def test_part_of_a_character_keeps_its_bytes() -> None:
    chat = chat_logprobs([PART], VOCABULARY)
    assert chat == {
        "content": [{"token": "\\xe4", "logprob": -0.25, "bytes": [0xE4], "top_logprobs": []}],
        "refusal": None,
    }
    assert completion_logprobs([PART], VOCABULARY)["tokens"] == ["bytes:\\xe4"]  # type: ignore[index, call-overload]


def test_completion_form_is_columns_and_the_chosen_token_is_among_the_alternatives() -> None:
    chosen = TokenEntry(1, 0x63, -3.0, (0x61,), (-1.0,))
    assert completion_logprobs([WHOLE, chosen], VOCABULARY) == {
        "tokens": ["a", "c"],
        "token_logprobs": [-0.5, -3.0],
        "top_logprobs": [{"a": -0.5, "b": -1.5}, {"a": -1.0, "c": -3.0}],
        "text_offset": [0, 1],
    }


def test_what_json_cannot_say_is_null_or_a_floor() -> None:
    first = TokenEntry(0, 0x61, None, (), ())
    never = TokenEntry(1, 0x62, -math.inf, (), ())
    assert completion_logprobs([first, never], VOCABULARY) == {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -9999.0],
        "top_logprobs": [None, {"b": -9999.0}],
        "text_offset": [0, 1],
    }
