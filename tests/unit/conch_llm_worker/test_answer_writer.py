"""How an answer is sent: what the gateway hears while there is nothing to show."""

import asyncio
import json

import pytest

from conch_contracts.messages.generation import Usage
from conch_kit.tracing import tracer
from conch_llm_worker.answer_writer import StreamedAnswerWriter, answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.generation.choice_update import ChoiceUpdate
from testkit.builders.generate_requests import generate_request
from testkit.clock import FakeClock
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_triton import Caller, ScriptedTriton
from testkit.models.vocabularies import BYTE_EOS, byte_level

WORKING = b": working\n\n"


@pytest.mark.parametrize(("inter_token_timeout_s", "quiet_s"), [(30.0, 1.0), (4.0, 1.0), (1.0, 0.25)])
async def test_the_gateway_hears_now_and_then_that_the_engine_works_unseen(
    inter_token_timeout_s: float, quiet_s: float
) -> None:
    caller, clock = Caller(b""), FakeClock()
    request = generate_request(stream=True, inter_token_timeout_s=inter_token_timeout_s)
    answer = StreamedAnswerWriter(request, byte_level(), caller.send, clock)  # type: ignore[arg-type]
    await answer.add(0, ChoiceUpdate(""))
    await answer.working()
    assert WORKING not in caller.body
    for unseen in (answer.working(), answer.add(0, ChoiceUpdate(""))):
        before = caller.body
        clock.advance(quiet_s)
        await unseen
        await answer.working()
        assert caller.body == before + WORKING
    clock.advance(quiet_s)
    before = caller.body
    await answer.add(0, ChoiceUpdate("hi"))
    assert WORKING not in caller.body.removeprefix(before)


async def test_tokens_without_text_are_work() -> None:
    request = generate_request(stream=True, inter_token_timeout_s=1e-9)
    caller, skipped = Caller(b""), tokens_response([BYTE_EOS])
    triton = ScriptedTriton([tokens_response(b"he"), skipped, tokens_response(b"y", "length")])
    answer = answer_for(request, byte_level(), caller.send)  # type: ignore[arg-type]
    await Choices(request, byte_level(), EngineCalls(triton, lambda: 42, tracer("test", None)), answer).run()
    before, _, after = caller.body.partition(WORKING)
    assert b'"content":"he"' in before
    assert b'"content":"y"' in after


async def test_a_whole_answer_says_nothing_before_its_end() -> None:
    caller = Caller(b"")
    answer = answer_for(generate_request(stream=False), byte_level(), caller.send)  # type: ignore[arg-type]
    await answer.working()
    assert caller.status is None
    await answer.add(0, ChoiceUpdate("hi"))
    await answer.finish(Usage(prompt_tokens=3, completion_tokens=1))
    assert json.loads(caller.body)["choices"][0]["message"]["content"] == "hi"


async def test_choices_that_begin_at_the_same_time_have_one_status() -> None:
    caller, sent = Caller(b""), asyncio.Event()

    async def slowly(message: dict[str, object]) -> None:
        await caller.send(message)  # which refuses a second status
        await sent.wait()

    answer = StreamedAnswerWriter(generate_request(stream=True, n=2), byte_level(), slowly)  # type: ignore[arg-type]
    adding = [asyncio.create_task(answer.add(index, ChoiceUpdate("hi"))) for index in range(2)]
    await asyncio.sleep(0)
    sent.set()
    await asyncio.gather(*adding)
    assert caller.status == 200
    assert caller.body.count(b'"hi"') == 2
