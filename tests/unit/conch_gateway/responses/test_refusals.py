"""What `POST /v1/responses` refuses by name, and what asks for nothing and passes."""

import pytest

from conch_contracts.names import GENERATE_PATH
from testkit.gateway.fakes import answered, gateway
from testkit.gateway.memory_responses import MemoryResponses

PATH = "/v1/responses"
ASKED = {"model": "tiny-chat", "input": "hi"}
BODY = b'{"object":"response","status":"completed","output":[]}'


def served():
    return gateway({GENERATE_PATH: answered(BODY)}, responses=MemoryResponses())


@pytest.mark.parametrize(
    ("asked", "param", "code"),
    [
        ({"input": None}, "input", "missing_required_parameter"),
        ({"input": []}, "input", "invalid_value"),
        *(
            ({"input": [{"role": "user", "content": "x"}, item]}, "input.1", "invalid_value")
            for item in (1, "a", [1], None)
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input.0.content.0.image_url", "missing"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input.0.content.0.text", "missing"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input", "invalid_value"),
        (
            {
                "input": [
                    {"role": "user", "content": "x"},
                    {"type": "function_call_output", "call_id": "c", "output": ""},
                ]
            },
            "input.1.call_id",
            "invalid_value",
        ),
        ({"image": {"context_compression": "enabled"}}, "image", None),
        ({"moderation": {"model": "x"}}, "moderation", None),
        ({"access_programs": {"x": {}}}, "access_programs", None),
        ({"background_options": {"completion_window": "2h"}}, "background_options", None),
        ({"input": [{"type": "computer_call"}]}, "input.0.type", None),
        ({"input": [{"type": {}, "role": "user", "content": "x"}]}, "input.0", "invalid_value"),
        ({"input": [{"role": "user", "content": [{"type": {}}]}]}, "input.0.content.0", "invalid_value"),
        ({"tools": [{"type": []}]}, "tools.0.type", "invalid_value"),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": {"required": "a"}}]},
            "tools.0.parameters.required",
            "invalid_value",
        ),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input.0.role", "invalid_value"),
        ({"truncation": "auto"}, "truncation", None),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation", None),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary", None),
        ({"reasoning": {"zzz": 1}}, "reasoning.zzz", "invalid_value"),
        ({"text": {"zzz": 1}}, "text.zzz", "invalid_value"),
        ({"text": {"format": {"type": "text", "zzz": 1}}}, "text.format.zzz", "invalid_value"),
        ({"messages": []}, "messages", None),
        ({"n": 2}, "n", None),
        ({"n": True}, "n", None),
        ({"logprobs": True}, "logprobs", None),
        ({"response_format": {"type": "json_object"}}, "response_format", None),
        ({"max_tokens": 2}, "max_tokens", None),
        ({"conversation": {"id": "x"}}, "conversation", None),
        ({"prompt": {"id": "x"}}, "prompt", None),
        ({"include": ["file_search_call.results"]}, "include.0", "invalid_value"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"max_output_tokens": 100}, "max_output_tokens", "context_length_exceeded"),
        ({"min_tokens": 30, "max_output_tokens": 20}, "min_tokens", "invalid_value"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", None),
        ({"text": {"format": {"type": "xml"}}}, "text.format", "invalid_value"),
        ({"model": "nobody"}, "model", "model_not_found"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x", "invalid_value"),
        (
            {"structured_outputs": {"regex": "a"}, "text": {"format": {"type": "json_object"}}},
            "structured_outputs.regex",
            "invalid_value",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(asked, param, code):
    answer = await served().client.post(PATH, {**ASKED, **asked})
    assert answer.status in (400, 404)
    assert answer.error["param"] == param
    assert answer.error["code"].startswith(code or "unsupported_parameter")


@pytest.mark.parametrize(
    "asked",
    [
        {"service_tier": "auto", "truncation": "disabled", "background": False, "store": None},
        {"prompt_cache_key": "k", "safety_identifier": "s", "user": "u", "max_tool_calls": 3},
        {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}},
        {"prompt": None, "conversation": None, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True},
        {"nobody_knows_this": 1},
        {"n": 1, "best_of": 1, "logprobs": False, "echo": False, "response_format": {"type": "text"}, "logit_bias": {}},
        {"max_tokens": None, "messages": None, "skip_special_tokens": True, "priority": 0, "use_beam_search": False},
        {"add_generation_prompt": True, "continue_final_message": False, "include_reasoning": True},
        {"input": [{"type": "reasoning", "summary": []}], "instructions": "Be kind."},
        {"image": {"context_compression": "auto"}, "background_options": {}, "moderation": None},
    ],
)
async def test_what_asks_for_nothing_passes(asked):
    assert (await served().client.post(PATH, {**ASKED, **asked})).status == 200
