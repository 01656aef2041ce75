import json

from conch_contracts.messages.generation import Api, Usage
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from testkit.builders.generate_requests import generate_request
from testkit.models.vocabularies import byte_level

USAGE = Usage(prompt_tokens=3, completion_tokens=2)


def collected(finish: ChoiceFinish) -> ChoiceBody:
    choice = ChoiceBody()
    choice.add(ChoiceUpdate("he", [TokenEntry(0, 0x61, -0.5, (), ())]))
    choice.add(ChoiceUpdate("llo", (), finish))
    return choice


def test_a_chat_body_has_every_required_key() -> None:
    body = complete_body(generate_request(), [collected(ChoiceFinish("stop"))], USAGE, byte_level())
    assert json.loads(body) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hello",
                    "refusal": None,
                    "reasoning_content": None,
                    "reasoning": None,
                    "prompt_token_ids": None,
                    "completion_token_ids": None,
                    "prompt_tokens": None,
                    "completion_tokens": None,
                    "multimodal_content": None,
                    "audio_content": None,
                },
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": None,
                "prompt_logprobs": None,
                "routed_experts": None,
                "draft_logprobs": None,
                "speculate_metrics": None,
                "weight_versions": None,
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
        "prompt_text": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
    }


def test_a_completion_body_numbers_its_choices() -> None:
    request = generate_request(api=Api.COMPLETION, n=2, logprobs=True)
    body = json.loads(complete_body(request, [collected(ChoiceFinish("stop", 9)), ChoiceBody()], USAGE, byte_level()))
    assert body["object"] == "text_completion"
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["choices"][0]["text"] == "hello"
    assert body["choices"][0]["stop_reason"] == 9
    asked_for = ("prompt_logprobs", "prompt_token_ids", "completion_token_ids", "token_ids")
    of_fastdeploy = ("prompt_tokens", "completion_tokens", "reasoning_content", "draft_logprobs", "speculate_metrics")
    assert [body["choices"][0][name] for name in (*asked_for, *of_fastdeploy, "routed_experts")] == [None] * 10
    assert [body[name] for name in ("service_tier", "kv_transfer_params", "ec_transfer_params", "metrics")] == [
        None
    ] * 4
    assert body["choices"][0]["logprobs"]["tokens"] == ["a"]
