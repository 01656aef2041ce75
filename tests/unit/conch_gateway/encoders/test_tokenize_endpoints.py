"""What is asked of the tokenizer for its own sake."""

from typing import Any

import orjson
import pytest

from conch_contracts.names import DETOKENIZE_PATH, TOKENIZE_PATH
from conch_contracts.records import ChatProfile, ContentFormat
from conch_contracts.tool_call_marks import ToolCallParser
from testkit.gateway.fakes import answered, gateway, route, snapshot


async def test_a_conversations_tokens_are_counted_with_its_tools_and_variables() -> None:
    model = route(chat=ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True))
    served = gateway({TOKENIZE_PATH: answered(b'{"tokens":[1,2]}')}, known=snapshot(model))
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}, "strict": True}}
    asked = {"messages": [{"role": "user", "content": "a"}], "tools": [tool]}
    answer = await served.client.post("/tokenize", {**asked, "chat_template_kwargs": {"enable_thinking": True}})
    assert orjson.loads(answer.body) == {
        "count": 2,
        "max_model_len": model.max_model_len,
        "tokens": [1, 2],
        "token_strs": None,
    }
    chat = served.upstream.sent(TOKENIZE_PATH)[0]["chat"]
    assert chat["tools"] == [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
    assert chat["template_kwargs"] == {"enable_thinking": True}


async def test_the_tokenizer_knows_how_long_the_parts_of_a_message_are() -> None:
    model = route(chat=ChatProfile(content_format=ContentFormat.OPENAI))
    served = gateway({TOKENIZE_PATH: answered(b'{"tokens":[1,2]}')}, known=snapshot(model))
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]
    assert (await served.client.post("/tokenize", {"messages": [{"role": "user", "content": parts}]})).status == 200
    chat = served.upstream.sent(TOKENIZE_PATH)[0]["chat"]
    assert chat["messages"] == [{"role": "user", "content": "ab\nc"}]
    assert (chat["part_lengths"], chat["content_format"]) == ({"0": [2, 1]}, "openai")


@pytest.mark.parametrize(("asked", "skipped"), [({}, False), ({"skip_special_tokens": True}, True)])
async def test_the_tokenizer_is_told_to_leave_out_special_tokens(asked: dict[str, Any], skipped: bool) -> None:
    served = gateway({DETOKENIZE_PATH: answered(b'{"prompt":"a"}')})
    assert (await served.client.post("/detokenize", {"tokens": [1], **asked})).status == 200
    assert served.upstream.sent(DETOKENIZE_PATH)[0]["skip_special_tokens"] is skipped


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (
            {
                "messages": [{"role": "user", "content": "a"}],
                "tools": [{"type": "function", "function": {"name": "x"}}],
            },
            "tools",
        ),
        ({"messages": [{"role": "user", "content": "a"}], "chat_template": "x"}, "chat_template"),
        ({"messages": [{"role": "user", "content": "a"}], "reasoning_effort": "high"}, "reasoning_effort"),
        ({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"x": 1}}, "chat_template_kwargs"),
        ({"messages": [{"role": "user", "content": "a"}], "continue_final_message": True}, "continue_final_message"),
        ({"prompt": "a", "tools": [{"type": "function", "function": {"name": "x"}}]}, "tools"),
        ({"prompt": "a", "chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs"),
    ],
)
async def test_tokens_of_what_no_model_sees_are_not_counted(body: dict[str, Any], param: str) -> None:
    served = gateway({TOKENIZE_PATH: answered(b'{"tokens":[1,2]}')})
    answer = await served.client.post("/tokenize", body)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert served.upstream.sent(TOKENIZE_PATH) == []


@pytest.mark.parametrize(
    ("path", "told", "asked"),
    [
        (TOKENIZE_PATH, b"null", {"prompt": "a"}),
        (TOKENIZE_PATH, b'{"tokens":3}', {"prompt": "a"}),
        (DETOKENIZE_PATH, b"\xff", {"tokens": [1]}),
        (DETOKENIZE_PATH, b'{"prompt":1}', {"tokens": [1]}),
    ],
)
async def test_what_is_no_answer_is_not_passed_on(path: str, told: bytes, asked: dict[str, Any]) -> None:
    answer = await gateway({path: answered(told)}).client.post(path.replace("/internal", ""), asked)
    assert (answer.status, orjson.loads(answer.body)["error"]["message"]) == (503, "No tokenizer answered.")
