"""Inputs of so many ids that nobody needs to look at each of them."""

from typing import Any

import orjson
import pytest

from conch_contracts.openai.encoders.fields import MAX_INPUTS
from conch_contracts.records import EncoderProfile, ModelKind
from conch_gateway.requests.prompt_length import MANY
from testkit.gateway.encoders import serving
from testkit.gateway.fakes import Gateway, answered, rows

LIMIT = 64
LONG = [5] * (MANY + 1)
BROAD = [[5] * LIMIT] * (MANY // LIMIT + 1)
PATHS = [
    ("/v1/embeddings", ModelKind.EMBEDDING),
    ("/pooling", ModelKind.EMBEDDING),
    ("/classify", ModelKind.CLASSIFY),
]


def gateway(kind: ModelKind, *lengths: int, truncate: bool = False) -> Gateway:
    profile = EncoderProfile(truncate=truncate)
    return serving(kind, answered(b"{}"), profile=profile, tokenizer=rows(*(lengths or (1,))))


@pytest.mark.parametrize(("path", "kind"), PATHS)
@pytest.mark.parametrize(
    ("input_", "param", "tokens"),
    [(LONG, "input", len(LONG)), ([*BROAD, [5] * 66, [5] * 66, [5] * 65], f"input.{len(BROAD)}", 66)],
    ids=["one", "several"],
)
async def test_an_input_of_too_many_ids_is_refused_as_a_shorter_one_but_without_a_tokenizer(
    path: str, kind: ModelKind, input_: list[Any], param: str, tokens: int
) -> None:
    said = []
    for several in (input_, ["a"] * len(input_) if param != "input" else "a"):
        lengths = [len(one) for one in input_] if isinstance(input_[0], list) else [tokens]
        served = gateway(kind, *lengths)
        answer = await served.client.post(path, {"model": "enc", "input": several})
        said.append((answer.status, orjson.loads(answer.body)))
        assert len(served.upstream.posts) == (0 if several is input_ else 1)
    assert said[0] == said[1]
    status, error = said[0][0], said[0][1]["error"]
    assert (status, error["param"], error["code"]) == (400, param, "context_length_exceeded")
    assert f"your '{param}' has {tokens} tokens" in error["message"]


@pytest.mark.parametrize(("path", "kind"), PATHS)
@pytest.mark.parametrize(
    ("changes", "truncate"),
    [
        ({"input": BROAD}, False),
        ({"input": [5] * (LIMIT + 1)}, False),
        ({"input": LONG, "truncate_prompt_tokens": 3}, False),
        ({"input": LONG}, True),
    ],
    ids=["fits", "few", "cut", "cut by the model"],
)
async def test_everything_else_goes_to_the_tokenizer(
    path: str, kind: ModelKind, changes: dict[str, Any], truncate: bool
) -> None:
    served = gateway(kind, truncate=truncate)
    await served.client.post(path, {"model": "enc", **changes})
    assert served.upstream.posts


async def test_too_many_inputs_are_refused_for_their_number() -> None:
    served = gateway(ModelKind.EMBEDDING)
    answer = await served.client.post("/v1/embeddings", {"input": [*[[5] * LIMIT] * MAX_INPUTS, LONG]})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "input", "invalid_value")


async def test_a_model_that_there_is_not_has_no_length() -> None:
    answer = await gateway(ModelKind.EMBEDDING).client.post("/v1/embeddings", {"model": "nobody", "input": LONG})
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
