"""The endpoint as a whole, with a scripted engine: what the gateway gets in every case."""

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conch_contracts.messages.generation import Details
from conch_contracts.messages.message import to_json
from conch_kit.addresses.rules import AddressRules
from conch_kit.errors import BodyTooLarge, InvalidRequest, ServiceError, Unavailable, UpstreamError, UpstreamTimeout
from conch_kit.tracing import OtlpTracer
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.errors import EngineLost, EngineRejected, EngineTimeout, EngineUnavailable
from testkit.builders.generate_requests import backend, prompt, sampling, target
from testkit.engines.engine_messages import response, tokens_response
from testkit.engines.scripted_triton import Caller, Event
from testkit.engines.scripted_worker import EOS, HELLO, SOON_S, Worker, ask, contents, frames, payloads
from testkit.models.vocabularies import BYTE_EOS


async def test_a_stream_is_role_texts_finish_done_and_the_usage_comment() -> None:
    caller = await Worker(HELLO).call(ask())
    assert (caller.status, caller.headers["content-type"]) == (200, "text/event-stream")
    assert [payload["choices"][0]["delta"] for payload in payloads(caller)] == [
        {"role": "assistant", "content": ""},
        {"content": "he"},
        {"content": "llo"},
        {"content": ""},
    ]
    assert payloads(caller)[-1]["choices"][0]["finish_reason"] == "stop"
    assert frames(caller)[-2:] == ["data: [DONE]", ': usage {"prompt_tokens":3,"completion_tokens":6}']


async def test_usage_comes_in_a_frame_of_its_own_when_asked_for() -> None:
    caller = await Worker(HELLO).call(ask(include_usage=True))
    assert payloads(caller)[-1]["choices"] == []
    usage = payloads(caller)[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 6, 9)


async def test_a_complete_answer_is_one_body_with_the_usage_in_a_header() -> None:
    caller = await Worker(HELLO).call(ask(stream=False))
    assert caller.headers["content-type"] == "application/json"
    assert json.loads(caller.headers["x-conch-usage"]) == {"prompt_tokens": 3, "completion_tokens": 6}
    assert json.loads(caller.body)["choices"][0]["message"]["content"] == "hello"


async def test_choices_are_numbered_by_prompt_and_variant_and_seeded_apart() -> None:
    worker = Worker(*[[tokens_response([letter], "length")] for letter in b"abcd"])
    prompts = (prompt((1,)), prompt((2, 3)))
    caller = await worker.call(ask(prompts=prompts, n=2, sampling=sampling(seed=7), target=target(slots=4)))
    assert [contents(caller, index) for index in range(4)] == ["a", "b", "c", "d"]
    sent = [json.loads(request.raw_input_contents[1][4:])["seed"] for request in worker.triton.requests]
    assert sent == [7, 8, 7, 8]
    assert frames(caller)[-1] == ': usage {"prompt_tokens":3,"completion_tokens":4}'
    roles = [payload["choices"][0]["index"] for payload in payloads(caller) if "role" in payload["choices"][0]["delta"]]
    assert sorted(roles) == [0, 1, 2, 3]


async def test_no_more_choices_run_at_once_than_the_engine_has_slots_for() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    scripts: list[list[Event]] = [[HELLO[0], gate, tokens_response(b"!", "length")] for gate in gates]
    worker = Worker(*scripts)
    call = asyncio.create_task(worker.call(ask(n=3, target=target(slots=2))))
    for open_so_far, gate in enumerate(gates):
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(worker.triton.requests) == min(3, open_so_far + 2)
        gate.set()
    caller = await call
    assert [contents(caller, index) for index in range(3)] == ["he!"] * 3


async def test_an_engine_that_its_author_may_not_name_is_not_dialled() -> None:
    guarded = CheckedAddresses(AddressRules(allowed=("10.0.0.0/8",)))
    worker = Worker(HELLO, addresses=guarded)
    with pytest.raises(Unavailable):
        await worker.call(ask(target=target(grpc="127.0.0.1:6379", named_in="team")))
    assert worker.triton.requests == []
    assert (await worker.call(ask(target=target(grpc="10.0.0.1:8001", named_in="team")))).status == 200
    assert len(worker.triton.requests) == 1


BEFORE = [
    (EngineUnavailable("down"), Unavailable),
    (EngineTimeout("silent", first=True), UpstreamTimeout),
    (EngineRejected("INVALID: no"), InvalidRequest),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("fault", "error"), BEFORE)
async def test_what_fails_before_the_first_message_is_a_status(
    fault: Exception, error: type[ServiceError], stream: bool
) -> None:
    with pytest.raises(error):
        await Worker([fault]).call(ask(stream=stream))


async def test_a_complete_answer_that_breaks_is_a_status() -> None:
    with pytest.raises(ServiceError) as broken:
        await Worker([HELLO[0], EngineLost("reset")]).call(ask(stream=False))
    assert (broken.value.status, broken.value.retryable) == (502, True)


@pytest.mark.parametrize(
    ("fault", "code"), [(EngineLost("reset"), "upstream_lost"), (EngineTimeout("x", first=False), "timeout")]
)
async def test_a_stream_that_breaks_ends_with_an_error_frame_and_partial_usage(fault: Exception, code: str) -> None:
    worker = Worker([HELLO[0], fault])
    caller = await worker.call(ask())
    assert frames(caller)[-1] == ': usage {"prompt_tokens":3,"completion_tokens":2}'
    assert json.loads(frames(caller)[-2][6:])["error"]["code"] == code
    assert b"[DONE]" not in caller.body
    assert b'finish_reason":"' not in caller.body
    assert caller.ended


async def test_a_stream_that_ends_without_a_reason_is_an_error() -> None:
    caller = await Worker([HELLO[0], response(final=True)]).call(ask())
    assert json.loads(frames(caller)[-2][6:])["error"]["code"] == "upstream_lost"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stream_without_a_message_is_the_engines_fault(stream: bool) -> None:
    with pytest.raises(UpstreamError):
        await Worker([]).call(ask(stream=stream))


async def test_one_choice_that_fails_ends_the_others() -> None:
    never = asyncio.Event()
    worker = Worker([HELLO[0], never], [HELLO[0], EngineLost("reset")])
    caller = await worker.call(ask(n=2, target=target(slots=2)))
    assert worker.triton.cancelled == [0]
    assert json.loads(frames(caller)[-2][6:])["error"]["code"] == "upstream_lost"
    assert worker.in_flight.count == 0


async def test_an_answer_that_a_stop_string_ends_waits_for_nobody_and_the_engine_is_stopped_soon() -> None:
    never = asyncio.Event()
    worker = Worker([tokens_response(b"hel"), tokens_response(b"lo you"), never])
    caller = await worker.call(ask(stop=("lo",)))
    assert contents(caller) == "hel"
    assert payloads(caller)[-1]["choices"][0]["stop_reason"] == "lo"
    assert worker.rest_within_s() < SOON_S
    assert frames(caller)[-1] == ': usage {"prompt_tokens":3,"completion_tokens":5}'


@pytest.mark.parametrize("limits", [EOS, {"max_tokens": 2}, {"stop_token_ids": (ord("e"),)}])
async def test_an_engine_that_is_done_is_not_cancelled_but_read_to_its_end(limits: dict[str, Any]) -> None:
    worker = Worker([tokens_response(b"he"), tokens_response([BYTE_EOS]), response(final=True)])
    await worker.call(ask(sampling=sampling(**limits)))
    assert worker.triton.cancelled == []
    assert worker.rest_within_s() > SOON_S


@pytest.mark.parametrize("n", [1, 2])
async def test_a_client_that_goes_cancels_the_engine_and_gets_nothing_more(n: int) -> None:
    never = asyncio.Event()
    worker = Worker(*[[HELLO[0], never]] * n)
    caller = Caller(to_json(ask(n=n, target=target(slots=n))))
    caller.on_body = lambda body: caller.hang_up() if len(worker.triton.requests) == n else None
    await worker.serve(caller)
    assert sorted(worker.triton.cancelled) == list(range(n))
    assert not caller.ended
    assert (worker.outcomes("client_gone"), worker.in_flight.count) == (1, 0)


async def test_a_client_that_goes_before_the_first_message_cancels_the_engine() -> None:
    worker = Worker([asyncio.Event()])
    caller = Caller(to_json(ask()))
    asyncio.get_running_loop().call_soon(caller.hang_up)
    await worker.serve(caller)
    assert (worker.triton.cancelled, caller.status) in (([0], None), ([], None))


async def test_the_end_of_the_drain_is_told_to_the_client() -> None:
    never, shown = asyncio.Event(), asyncio.Event()
    caller = Caller(to_json(ask()))
    caller.on_body = lambda body: shown.set()
    async with asyncio.TaskGroup() as group:
        work = group.create_task(Worker([HELLO[0], never]).serve(caller))
        await shown.wait()
        work.cancel()
    assert json.loads(frames(caller)[-2][6:])["error"]["code"] == "server_shutting_down"
    assert caller.ended


async def test_a_request_whose_time_is_over_is_a_time_out() -> None:
    with pytest.raises(UpstreamTimeout):
        await Worker([asyncio.Event()]).call(ask(timeout_s=0.001))


PATH_FOR_DIGEST = to_json(ask()).replace(b"d" * 64, b"../..")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request_id": 1}', PATH_FOR_DIGEST])
async def test_a_message_that_is_no_generate_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await Worker().call(body)


async def test_a_message_that_is_too_large_is_not_read() -> None:
    worker = Worker(HELLO)
    with pytest.raises(BodyTooLarge):
        await worker.call(b" " * 1_000_001)
    assert worker.triton.requests == []


async def test_a_stop_word_of_the_model_cancels_an_engine_that_does_not_know_it() -> None:
    worker = Worker([tokens_response(b"hello you"), asyncio.Event()])
    caller = await worker.call(ask(backend=backend(stop_words=(tuple(b"lo"),))))
    assert contents(caller) == "hel"
    assert worker.rest_within_s() < SOON_S


async def test_a_prompt_of_many_ids_is_served_as_any_other() -> None:
    caller = await Worker(HELLO).call(ask(prompts=(prompt(range(20_000)),)))
    assert contents(caller) == "hello"


async def test_spans_tell_waiting_for_the_engine_from_its_work() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await Worker(HELLO, spans=OtlpTracer(provider)).call(ask())
    assert [span.name for span in exporter.get_finished_spans()] == ["wait", "work"]


async def test_a_choice_can_begin_with_a_text_of_the_clients() -> None:
    caller = await Worker(HELLO).call(ask(details=Details(prefix="Oh, ")))
    assert contents(caller) == "Oh, hello"


async def test_frames_hold_no_more_tokens_than_asked_for() -> None:
    worker = Worker([tokens_response(b"hello"), tokens_response([BYTE_EOS], "stop", BYTE_EOS)])
    caller = await worker.call(ask(details=Details(max_frame_tokens=2)))
    texts = [payload["choices"][0]["delta"].get("content") for payload in payloads(caller)]
    assert texts == ["", "he", "ll", "o", ""]
