"""What no model can be given is refused by its place, whichever endpoint it is sent to, and no tokenizer is asked."""

from typing import Any

import pytest

from conch_contracts.names import DETOKENIZE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_contracts.records import ModelKind
from testkit.gateway.encoders import serving
from testkit.gateway.fakes import answered

NOBODY = [{"role": "user", "content": None}]
CALLS = [{"role": "user", "content": "a", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}]
DEEP = [{"role": "assistant", "function_call": {"name": "f", "arguments": "[" * 5000 + "]" * 5000}}]
ASKED = (PREPARE_ROWS_PATH, TOKENIZE_PATH, DETOKENIZE_PATH)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling", "/tokenize"])
@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (NOBODY, "messages.0.content"),
        (CALLS, "messages.0.tool_calls"),
        (DEEP, "messages.0.function_call.arguments"),
    ],
    ids=["nothing", "a user's call", "brackets without end"],
)
async def test_what_is_no_conversation_is_refused_by_its_place(
    path: str, messages: list[dict[str, Any]], param: str
) -> None:
    served = serving(ModelKind.EMBEDDING, answered(b"{}"))
    answer = await served.client.post(path, {"model": "enc", "messages": messages})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert not any(served.upstream.sent(asked) for asked in ASKED)


@pytest.mark.parametrize(
    ("path", "name"), [("/detokenize", "tokens"), ("/v1/embeddings", "input"), ("/pooling", "input")]
)
async def test_an_id_that_the_model_does_not_know_is_refused(path: str, name: str) -> None:
    served = serving(ModelKind.EMBEDDING, answered(b"{}"))
    answer = await served.client.post(path, {"model": "enc", name: [1, 10**6]})
    assert (answer.status, answer.error["param"]) == (400, name)
    assert not any(served.upstream.sent(asked) for asked in ASKED)
