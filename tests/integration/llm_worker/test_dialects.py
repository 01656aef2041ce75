"""One table over all dialects: the same scripts give the same answers, through the real process and the real server."""

import asyncio
import json
import random
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import Api, PreparedPrompt
from testkit.builders.generate_requests import backend
from testkit.engines.dialect_stand_ins import ENSEMBLE, PER_DIALECT, StandIn
from testkit.models.vocabularies import BYTE_EOS
from testkit.waiting import eventually

from .asking import COUNTED, FORMS, SILENT_END, STREAMED, TEXT, answer, ask, both, every, every_dialect, said, streamed
from .conftest import Stage


@every
@both
@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETION])
async def test_the_answer_is_the_same(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, stream: bool, api: Api
) -> None:
    request = ask(engines, model, stream=stream, api=api)
    reply = await answer(engines, session, request)
    assert (reply.status, reply.text(), reply.finishes) == (200, TEXT, [("stop", None)])
    made = len(TEXT.encode()) + (model.name not in COUNTED)
    assert reply.usage == {"prompt_tokens": len(request.prompts[0].ids), "completion_tokens": made}


@every
@both
async def test_tokens_may_come_in_groups(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, stream: bool
) -> None:
    reply = await answer(engines, session, ask(engines, model, said(TEXT, group=5), stream=stream, stop=("nd.",)))
    assert (reply.text(), reply.finishes) == ("Hello 你好 🙂 e", [("stop", "nd.")])


@streamed
async def test_characters_of_several_tokens_are_never_split(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    reply = await answer(engines, session, ask(engines, model))
    deltas = [payload["choices"][0]["delta"].get("content", "") for payload in reply.payloads]
    assert "🙂" in deltas
    assert "\ufffd" not in "".join(deltas)
    assert reply.frames[-2] == "data: [DONE]"


@every
@both
async def test_an_answer_may_be_empty(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, stream: bool
) -> None:
    reply = await answer(engines, session, ask(engines, model, said(""), stream=stream))
    assert (reply.status, reply.text(), reply.finishes) == (200, "", [("stop", None)])
    assert reply.usage["completion_tokens"] == (model.name not in COUNTED)


@every
@both
async def test_the_limit_ends_the_answer(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, stream: bool
) -> None:
    reply = await answer(engines, session, ask(engines, model, stream=stream, sampling={"max_tokens": 5}))
    assert (reply.text(), reply.finishes) == ("Hello", [("length", None)])
    assert reply.usage["completion_tokens"] == 5


@every
@both
@pytest.mark.parametrize(
    ("changes", "text", "stop"),
    [
        ({"stop": ("o 你",)}, "Hell", "o 你"),
        ({"stop": ("llo", "ello")}, "H", "ello"),
        ({"stop": ("🙂",), "include_stop_str_in_output": True}, "Hello 你好 🙂", "🙂"),
        ({"stop": ("end.",)}, "Hello 你好 🙂 ", "end."),
        ({"backend": backend(stop_words=(tuple(b"lo"),), end_id=BYTE_EOS)}, "Hel", "lo"),
    ],
)
async def test_stop_strings_end_the_answer(
    engines: Stage,
    session: aiohttp.ClientSession,
    model: StandIn,
    stream: bool,
    changes: dict[str, Any],
    text: str,
    stop: str,
) -> None:
    reply = await answer(engines, session, ask(engines, model, stream=stream, **changes))
    assert (reply.text(), reply.finishes) == (text, [("stop", stop)])


@every
async def test_stop_strings_count_only_after_the_least_tokens(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    asked = {"stop": ("a",), "sampling": {"min_tokens": 3}}
    reply = await answer(engines, session, ask(engines, model, said("xaxaxa"), **asked))
    if model.name in {"fastertransformer", "trt-llm-api", "trt-llm-api-streamed"}:
        assert (reply.status, reply.error["param"]) == (400, "min_tokens")
    else:
        assert (reply.text(), reply.finishes) == ("xax", [("stop", "a")])


@every_dialect
async def test_the_models_own_words_and_stop_ids_count_only_after_the_least_tokens(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    if model.name == "fastertransformer":
        model = next(one for one in FORMS if one.name == "ft-least")
    asked: dict[str, Any] = {
        "sampling": {"min_tokens": 3, "stop_token_ids": (ord("c"),)},
        "backend": backend(stop_words=(tuple(b"ab"),), end_id=BYTE_EOS),
    }
    reply = await answer(engines, session, ask(engines, model, said("ababab"), **asked))
    assert (reply.text(), reply.finishes) == ("abab", [("stop", "ab")])
    reply = await answer(engines, session, ask(engines, model, said("cxcxcx"), **asked))
    assert (reply.text(), reply.finishes[0][0]) == ("cxcx", "stop")


@every_dialect
async def test_ids_end_the_answer(engines: Stage, session: aiohttp.ClientSession, model: StandIn) -> None:
    reply = await answer(engines, session, ask(engines, model, sampling={"stop_token_ids": (ord("o"),)}))
    assert (reply.text(), reply.finishes) == ("Hell", [("stop", None if model.name in SILENT_END else ord("o"))])


@every
async def test_each_choice_has_a_seed_of_its_own(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    text = "zwölf Boxkämpfer 🥊"
    prompt = PreparedPrompt(ids=tuple(text.encode()), text=text)
    request = ask(engines, model, prompt, n=3, sampling={"temperature": 1.0, "seed": 4})
    reply = await answer(engines, session, request)
    assert [reply.text(index) for index in range(3)] == [text[turn:] + text[:turn] for turn in (4, 5, 6)]
    made = 3 * (len(text.encode()) + (model.name not in COUNTED))
    assert reply.usage == {"prompt_tokens": len(text.encode()), "completion_tokens": made}


@every
async def test_without_a_temperature_the_seed_has_no_effect(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    prompt = PreparedPrompt(ids=tuple(b"abcdef"), text="abcdef")
    reply = await answer(engines, session, ask(engines, model, prompt, sampling={"temperature": 0, "seed": 4}))
    assert reply.text() == "abcdef"


@every
async def test_the_prompt_may_be_echoed(engines: Stage, session: aiohttp.ClientSession, model: StandIn) -> None:
    prompt = PreparedPrompt(ids=tuple(b"abc"), text="abc")
    reply = await answer(engines, session, ask(engines, model, prompt, echo=True, api=Api.COMPLETION))
    assert reply.text() == "abcabc"


@streamed
async def test_an_error_in_the_middle_ends_the_stream(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    reply = await answer(engines, session, ask(engines, model, said("Hello", fail=3)))
    assert (reply.status, reply.text(), reply.finishes) == (200, "Hel", [])
    assert reply.error["code"] == "upstream_lost"
    assert "data: [DONE]" not in reply.frames
    assert reply.usage["completion_tokens"] == 3


@every
async def test_an_error_before_the_first_token_is_a_status(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    reply = await answer(engines, session, ask(engines, model, said("Hello", fail=0)))
    assert (reply.status, reply.error["type"]) == (502, "server_error")


async def test_an_engine_that_falls_silent_ends_the_stream(engines: Stage, session: aiohttp.ClientSession) -> None:
    asked = (ask(engines, model, said("Hello", silent=3), inter_token_timeout_s=3) for model in STREAMED)
    replies = await asyncio.gather(*(answer(engines, session, request) for request in asked))
    ends = [(reply.text(), reply.error["code"]) for reply in replies]
    assert ends == [("Hel", "timeout")] * len(STREAMED)


@streamed
async def test_a_client_that_goes_is_seen_by_the_engine(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    request = ask(engines, model, said(TEXT * 20, delay=0.05), sampling={"max_tokens": 1000})
    async with engines.worker.open(session, request) as opened:
        await opened.content.readany()
        opened.close()
    await eventually(lambda: engines.seen("cancelled", request.request_id), "the cancellation")


@streamed
async def test_a_stop_string_ends_the_engines_work(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    request = ask(engines, model, said(TEXT * 20, delay=0.05), stop=("el",), sampling={"max_tokens": 1000})
    assert (await answer(engines, session, request)).text() == "H"
    await eventually(lambda: engines.seen("cancelled", request.request_id), "the cancellation")


async def test_a_model_that_decodes_each_message_alone_gives_what_it_has(
    engines: Stage, session: aiohttp.ClientSession
) -> None:
    reply = await answer(engines, session, ask(engines, ENSEMBLE, said("plain text")))
    assert (reply.text(), reply.finishes) == ("plain text", [("stop", None)])


@pytest.mark.parametrize("model", [one for one in PER_DIALECT if one.name != "tokens"], ids=lambda one: one.name)
async def test_log_probabilities_belong_to_the_tokens(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    reply = await answer(engines, session, ask(engines, model, stream=False, logprobs=True))
    content = reply.json["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in content for byte in token["bytes"]).decode() == TEXT + "<|end|>"
    assert [token["logprob"] for token in content] == [-(id_ % 8) / 8 for id_ in (*TEXT.encode(), BYTE_EOS)]


ALPHABET = ("a", "b", " ", "\n", "é", "ß", "你", "好", "🙂", "👩‍👩‍👧", "🇩🇪", "اب", "e\u0301", "�", "\u200b", '"', "\\")
PROMPTS = 200


def generated(number: int) -> tuple[PreparedPrompt, dict[str, Any]]:
    """Return a prompt and how it is asked: its text is turned, cut at a limit, and searched for stop strings."""
    chance = random.Random(number)
    text = "".join(chance.choices(ALPHABET, k=chance.randint(1, 12)))
    remark = "@" + json.dumps({"group": chance.randint(1, 5)})
    prompt = PreparedPrompt(ids=tuple((remark + text).encode()), text=remark + text)
    cuts = [sorted(chance.sample(range(len(text) + 1), 2)) for _ in range(chance.randint(0, 2))]
    return prompt, {
        "stop": tuple(text[start:end] for start, end in cuts),
        "include_stop_str_in_output": chance.random() < 0.3,
        "sampling": {"temperature": 1.0, "seed": chance.randrange(2**62), "max_tokens": chance.randint(1, 80)},
    }


@pytest.mark.parametrize(
    "model", [*PER_DIALECT, *(one for one in FORMS if one.name == "trt-bls")], ids=lambda one: one.name
)
async def test_streaming_text_equals_the_whole_text(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    slots = asyncio.Semaphore(4)

    async def compare(number: int) -> tuple[str, list[Any]]:
        prompt, changes = generated(number)
        async with slots:
            replies = [
                await answer(engines, session, ask(engines, model, prompt, stream=stream, **changes))
                for stream in (True, False)
            ]
        (text, finishes), whole = [(reply.text(), reply.finishes) for reply in replies]
        assert (text, finishes) == whole, (number, changes)
        return text, finishes

    found = await asyncio.gather(*map(compare, range(PROMPTS)))
    assert len({text for text, _ in found}) > PROMPTS // 2
    assert {finish for _, finishes in found for finish, _ in finishes} == {"stop", "length"}


async def test_all_dialects_give_the_same_texts(engines: Stage, session: aiohttp.ClientSession) -> None:
    for number in range(0, PROMPTS, 4):
        prompt, changes = generated(number)
        requests = [ask(engines, model, prompt, **changes) for model in PER_DIALECT]
        replies = await asyncio.gather(*(answer(engines, session, request) for request in requests))
        assert len({(reply.text(), tuple(reply.finishes)) for reply in replies}) == 1, (number, changes)
