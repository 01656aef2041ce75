"""The `fastertransformer` dialect against its contract model on the real server, through the real process."""

import asyncio
import itertools
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import Api, GenerateRequest
from conch_contracts.records import Dialect
from testkit.builders.generate_requests import backend, generate_request, prompt, sampling, target
from testkit.models.vocabularies import BYTE_EOS
from testkit.waiting import eventually

from .conftest import ANSWER, Stage

NUMBERS = itertools.count()
TOKENS = len(ANSWER.encode()) + 1


def ask(stage: Stage, model: str = "streamed", **changes: Any) -> GenerateRequest:
    fields = {
        "request_id": f"r{next(NUMBERS)}",
        "target": target(Dialect.FASTERTRANSFORMER, grpc=stage.triton.grpc, model=model, tokenizer_digest=stage.digest),
        "stream": True,
        "sampling": sampling(**{"max_tokens": 100, **changes.pop("sampling", {})}),
        "backend": backend(end_id=BYTE_EOS),
    }
    return generate_request(**fields | changes)


async def seen(stage: Stage, what: str, request_id: str) -> None:
    """Wait for the contract model's note."""
    await eventually(lambda: stage.seen(what, request_id), f"{request_id} {what}")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["streamed", "unary"])
@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETION])
async def test_both_kinds_of_model_give_the_same_answer_streamed_and_not(
    stage: Stage, session: aiohttp.ClientSession, model: str, stream: bool, api: Api
) -> None:
    reply = await stage.worker.ask(session, ask(stage, model, stream=stream, api=api))
    assert (reply.status, reply.text()) == (200, ANSWER)
    assert reply.finishes == [("stop", None)]
    assert reply.usage == {"prompt_tokens": 3, "completion_tokens": TOKENS}


async def test_characters_of_several_tokens_are_never_split(stage: Stage, session: aiohttp.ClientSession) -> None:
    reply = await stage.worker.ask(session, ask(stage))
    deltas = [payload["choices"][0]["delta"].get("content", "") for payload in reply.payloads]
    assert "🙂" in deltas
    assert "\ufffd" not in "".join(deltas)
    assert reply.frames[-2] == "data: [DONE]"


@pytest.mark.parametrize("model", ["streamed", "unary"])
async def test_the_limit_ends_the_answer(stage: Stage, session: aiohttp.ClientSession, model: str) -> None:
    reply = await stage.worker.ask(session, ask(stage, model, sampling={"max_tokens": 5}))
    assert (reply.text(), reply.finishes) == ("Hello", [("length", None)])


@pytest.mark.parametrize(
    ("changes", "text", "finish"),
    [
        ({"stop": ("o 你",)}, "Hell", ("stop", "o 你")),
        ({"stop": ("🙂",), "include_stop_str_in_output": True}, "Hello 你好 🙂", ("stop", "🙂")),
        ({"sampling": {"stop_token_ids": (ord("o"),)}}, "Hell", ("stop", ord("o"))),
        ({"backend": backend(end_id=ord("l"))}, "He", ("stop", None)),
        ({"backend": backend(stop_words=(tuple(b"lo"),), end_id=BYTE_EOS)}, "Hel", ("stop", "lo")),
    ],
)
@pytest.mark.parametrize("model", ["streamed", "unary"])
async def test_stops_end_the_answer_across_token_borders(
    stage: Stage, session: aiohttp.ClientSession, model: str, changes: dict[str, Any], text: str, finish: object
) -> None:
    reply = await stage.worker.ask(session, ask(stage, model, **changes))
    assert (reply.text(), reply.finishes) == (text, [finish])


async def test_a_stop_string_ends_the_engines_work(stage: Stage, session: aiohttp.ClientSession) -> None:
    request = ask(stage, "crawling", stop=("el",))
    await stage.worker.ask(session, request)
    await seen(stage, "cancelled", request.request_id)


@pytest.mark.parametrize("model", ["streamed", "unary"])
async def test_log_probabilities_belong_to_the_tokens(stage: Stage, session: aiohttp.ClientSession, model: str) -> None:
    reply = await stage.worker.ask(session, ask(stage, model, stream=False, logprobs=True))
    content = reply.json["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in content for byte in token["bytes"]).decode() == ANSWER + "<|end|>"
    assert [token["logprob"] for token in content] == [-(id_ % 8) / 8 for id_ in (*ANSWER.encode(), BYTE_EOS)]


async def test_choices_have_seeds_of_their_own(stage: Stage, session: aiohttp.ClientSession) -> None:
    request = ask(stage, n=2, prompts=(prompt((1, 2)), prompt((3,))), sampling={"temperature": 1.0, "seed": 5})
    reply = await stage.worker.ask(session, request)
    assert [reply.text(index) for index in range(4)] == [ANSWER] * 4
    assert reply.usage == {"prompt_tokens": 3, "completion_tokens": 4 * TOKENS}
    seeds = [note["random_seed"] for note in stage.seen("request", request.request_id)]
    assert sorted(map(str, seeds)) == ["5", "5", "6", "6"]


async def test_greedy_is_asked_for_as_the_backend_understands_it(stage: Stage, session: aiohttp.ClientSession) -> None:
    request = ask(stage, sampling={"temperature": 0})
    await stage.worker.ask(session, request)
    (note,) = stage.seen("request", request.request_id)
    assert (note["runtime_top_k"], note["runtime_top_p"], note["temperature"]) == (1, 0.0, 1.0)
    assert (note["end_id"], note["start_id"]) == (BYTE_EOS, None)


async def test_word_lists_are_what_the_model_reads(stage: Stage, session: aiohttp.ClientSession) -> None:
    request = ask(stage, sampling={"bad_words": ((1, 2), (3,)), "stop_token_ids": (BYTE_EOS, 9)})
    assert (await stage.worker.ask(session, request)).status == 200


async def test_what_the_model_cannot_do_is_a_400_that_names_it(stage: Stage, session: aiohttp.ClientSession) -> None:
    reply = await stage.worker.ask(session, ask(stage, sampling={"min_p": 0.5}))
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, "min_p", "unsupported_parameter")


async def test_a_default_that_the_model_cannot_obey_is_left_out(stage: Stage, session: aiohttp.ClientSession) -> None:
    reply = await stage.worker.ask(session, ask(stage, sampling={"min_p": 0.5}, defaulted=("min_p",)))
    assert (reply.status, reply.text()) == (200, ANSWER)


async def test_an_unknown_model_may_be_tried_elsewhere(stage: Stage, session: aiohttp.ClientSession) -> None:
    reply = await stage.worker.ask(session, ask(stage, "absent"))
    assert reply.status in {502, 503}
    assert reply.headers["x-conch-retryable"] == "true"


async def test_an_engine_that_is_not_there_may_be_tried_elsewhere(stage: Stage, session: aiohttp.ClientSession) -> None:
    place = target(Dialect.TOKENS, grpc="127.0.0.1:9", tokenizer_digest=stage.digest)
    reply = await stage.worker.ask(session, ask(stage, target=place, first_token_timeout_s=60))
    assert (reply.status, reply.headers["x-conch-retryable"]) == (503, "true")


async def test_a_burst_over_what_may_wait_inside_an_engine_may_be_tried_again(
    stage: Stage, session: aiohttp.ClientSession
) -> None:
    burst = [ask(stage, "narrow", stream=False) for _ in range(8)]
    replies = await asyncio.gather(*(stage.worker.ask(session, request) for request in burst))
    served = [reply for reply in replies if reply.status == 200]
    refused = [reply for reply in replies if reply.status != 200]
    assert {reply.text() for reply in served} == {ANSWER}
    assert {(reply.status, reply.headers["x-conch-retryable"]) for reply in refused} == {(503, "true")}
    assert {(reply.error["code"], reply.error["message"]) for reply in refused} == {
        ("overloaded", "The model's engine is full.")
    }


async def test_an_engine_that_never_speaks_is_a_504(stage: Stage, session: aiohttp.ClientSession) -> None:
    reply = await stage.worker.ask(session, ask(stage, "mute", first_token_timeout_s=0.3))
    assert (reply.status, reply.error["code"]) == (504, "timeout")
    assert "x-conch-retryable" not in reply.headers


async def test_an_engine_that_falls_silent_ends_the_stream_with_an_error(
    stage: Stage, session: aiohttp.ClientSession
) -> None:
    reply = await stage.worker.ask(session, ask(stage, "silent", inter_token_timeout_s=2))
    assert (reply.status, reply.text(), reply.error["code"]) == (200, "Hel", "timeout")
    assert "data: [DONE]" not in reply.frames
    assert reply.finishes == []
    assert reply.usage == {"prompt_tokens": 3, "completion_tokens": 3}


async def test_a_client_that_goes_is_seen_by_the_engine(stage: Stage, session: aiohttp.ClientSession) -> None:
    request, other = ask(stage, "crawling"), ask(stage, "slow")
    bystander = asyncio.create_task(stage.worker.ask(session, other))
    async with stage.worker.open(session, request) as answer:
        await answer.content.readany()
        answer.close()
    await seen(stage, "cancelled", request.request_id)
    assert (await bystander).text() == ANSWER


async def test_a_client_that_goes_before_the_first_token_is_seen_too(
    stage: Stage, session: aiohttp.ClientSession
) -> None:
    request = ask(stage, "crawling", stream=False)
    work = asyncio.create_task(stage.worker.ask(session, request))
    await seen(stage, "request", request.request_id)
    work.cancel()
    await seen(stage, "cancelled", request.request_id)


async def test_many_streams_at_once_each_get_their_own_text(stage: Stage, session: aiohttp.ClientSession) -> None:
    limits = [index % 7 + 1 for index in range(48)]
    replies = await asyncio.gather(
        *(stage.worker.ask(session, ask(stage, "slow", sampling={"max_tokens": limit})) for limit in limits)
    )
    assert [reply.text() for reply in replies] == [ANSWER.encode()[:limit].decode(errors="replace") for limit in limits]
