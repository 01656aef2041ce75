"""The endpoint as a whole, with a scripted engine: what the gateway gets in every case."""

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from conch_contracts.messages.generation import Api, Details, GenerateRequest
from conch_contracts.names import Digest
from conch_kit.errors import InvalidRequest, ServiceError, Unavailable, UpstreamError, UpstreamTimeout
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.tracing import OtlpTracer, Tracer, tracer
from conch_kit.triton.errors import EngineLost, EngineRejected, EngineTimeout, EngineUnavailable
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.text.vocabulary import Vocabulary
from testkit.builders.generate_requests import backend, generate_request, prompt, sampling, target
from testkit.engines.engine_messages import response, tokens_response
from testkit.engines.scripted_triton import Caller, Event, ScriptedTriton
from testkit.models.vocabularies import BYTE_EOS, byte_level

EOS = {"eos_token_ids": (BYTE_EOS,)}
SOON_S = 0.1
HELLO = [tokens_response(b"he"), tokens_response(b"llo"), tokens_response([BYTE_EOS], "stop", BYTE_EOS)]


class OneVocabulary:
    async def get(self, digest: Digest) -> Vocabulary:
        return byte_level()


class Worker:
    """A handler on a scripted engine."""

    def __init__(self, *scripts: list[Event], spans: Tracer | None = None) -> None:
        self.triton = ScriptedTriton(*scripts)
        self.in_flight = InFlightRequests()
        self.registry = CollectorRegistry()
        engines = EngineCalls(self.triton, lambda: 42, spans or tracer("test", None))
        self._handler = GenerateHandler(
            engines, OneVocabulary(), self.in_flight, LlmWorkerMetrics.register(self.registry), max_body_bytes=1_000_000
        )

    async def call(self, request: GenerateRequest | bytes) -> Caller:
        caller = Caller(request if isinstance(request, bytes) else request.model_dump_json().encode())
        await self.serve(caller)
        return caller

    async def serve(self, caller: Caller) -> None:
        await self._handler(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]

    def rest_within_s(self) -> float:
        """Return how long the only engine call may go on, now that its answer has ended."""
        (stream,) = self.triton.streams
        assert stream.rest_within_s is not None
        return stream.rest_within_s

    def outcomes(self, outcome: str) -> float:
        return self.registry.get_sample_value("conch_llm_worker_requests_total", {"outcome": outcome}) or 0.0


def ask(**changes: Any) -> GenerateRequest:
    return generate_request(**{"sampling": sampling(**EOS), "stream": True} | changes)


def frames(caller: Caller) -> list[str]:
    return caller.body.decode().split("\n\n")[:-1]


def payloads(caller: Caller) -> list[Any]:
    return [json.loads(frame[6:]) for frame in frames(caller) if frame.startswith("data: {")]


def contents(caller: Caller, index: int = 0) -> str:
    choices = [choice for payload in payloads(caller) for choice in payload["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)


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
    assert payloads(caller)[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}


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
    caller = Caller(ask(n=n, target=target(slots=n)).model_dump_json().encode())
    caller.on_body = lambda body: caller.hang_up()
    await worker.serve(caller)
    assert sorted(worker.triton.cancelled) == list(range(n))
    assert not caller.ended
    assert (worker.outcomes("client_gone"), worker.in_flight.count) == (1, 0)


async def test_a_client_that_goes_before_the_first_message_cancels_the_engine() -> None:
    worker = Worker([asyncio.Event()])
    caller = Caller(ask().model_dump_json().encode())
    asyncio.get_running_loop().call_soon(caller.hang_up)
    await worker.serve(caller)
    assert (worker.triton.cancelled, caller.status) in (([0], None), ([], None))


async def test_the_end_of_the_drain_is_told_to_the_client() -> None:
    never, shown = asyncio.Event(), asyncio.Event()
    caller = Caller(ask().model_dump_json().encode())
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


async def test_an_echo_of_no_tokens_needs_no_engine() -> None:
    worker = Worker()
    caller = await worker.call(ask(api=Api.COMPLETION, echo=True, stream=False, sampling=sampling(max_tokens=0)))
    choice = json.loads(caller.body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert worker.triton.requests == []


async def test_an_echo_of_no_tokens_with_log_probabilities_asks_for_the_prompts() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        logprobs=("FP32", [1], [-1]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    worker = Worker([message])
    request = ask(
        api=Api.COMPLETION,
        echo=True,
        logprobs=True,
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        sampling=sampling(max_tokens=0, logprobs=1),
    )
    caller = await worker.call(request)
    sent = json.loads(worker.triton.requests[0].raw_input_contents[1][4:])
    assert (sent["max_tokens"], sent["prompt_logprobs"]) == (1, 1)
    choice = json.loads(caller.body)["choices"][0]
    assert choice["text"] == "abc"
    assert choice["logprobs"]["token_logprobs"] == [None, -1.0, -2.0]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2]
    assert json.loads(caller.headers["x-conch-usage"])["completion_tokens"] == 0


PATH_FOR_DIGEST = ask().model_dump_json().replace("d" * 64, "../..").encode()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request_id": 1}', PATH_FOR_DIGEST])
async def test_a_message_that_is_no_generate_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await Worker().call(body)


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


def scored(letter: int, logprob: float) -> list[Event]:
    """Return an engine's answer of one letter, which is so likely."""
    return [
        response(
            final=True,
            token_ids=("INT32", [1], [letter]),
            logprobs=("FP32", [1], [logprob]),
            finish_reason=("BYTES", [1], [b"length"]),
        )
    ]


async def test_of_more_choices_than_come_back_the_likeliest_do() -> None:
    worker = Worker(scored(97, -2.0), scored(98, -0.5), scored(99, -1.0), scored(100, -4.0), scored(101, -3.0))
    request = ask(n=2, best_of=5, stream=False, sampling=sampling(logprobs=0), target=target(slots=5))
    caller = await worker.call(request)
    choices = json.loads(caller.body)["choices"]
    assert [(choice["index"], choice["message"]["content"]) for choice in choices] == [(0, "b"), (1, "c")]
    assert choices[0]["logprobs"] is None
    assert json.loads(caller.headers["x-conch-usage"])["completion_tokens"] == 5


async def test_a_choice_can_begin_with_a_text_of_the_clients() -> None:
    caller = await Worker(HELLO).call(ask(details=Details(prefix="Oh, ")))
    assert contents(caller) == "Oh, hello"


async def test_frames_hold_no_more_tokens_than_asked_for() -> None:
    worker = Worker([tokens_response(b"hello"), tokens_response([BYTE_EOS], "stop", BYTE_EOS)])
    caller = await worker.call(ask(details=Details(max_frame_tokens=2)))
    texts = [payload["choices"][0]["delta"].get("content") for payload in payloads(caller)]
    assert texts == ["", "he", "ll", "o", ""]


async def test_the_prompts_log_probabilities_come_without_an_echo() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [3], [0, 1, 1]),
        prompt_top_ids=("INT32", [3, 2], [-1, -1, 98, 97, 99, 97]),
        prompt_top_logprobs=("FP32", [3, 2], [float("nan"), float("nan"), -1, -3, -2, -4]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        details=Details(prompt_logprobs=1),
        sampling=sampling(prompt_logprobs=2),
    )
    answer = json.loads((await Worker([message]).call(request)).body)
    assert answer["choices"][0]["message"]["content"] == "h"
    assert [list(position or ()) for position in answer["prompt_logprobs"]] == [[], ["98"], ["99"]]


async def test_a_prompt_can_be_scored_without_making_a_token() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [3], [0, 5, 7]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(
        api=Api.COMPLETION,
        echo=True,
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        details=Details(prompt_logprobs=0),
        sampling=sampling(max_tokens=0, prompt_logprobs=0),
    )
    choice = json.loads((await Worker([message]).call(request)).body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert [
        entry and entry[id_]["rank"] for id_, entry in zip(("97", "98", "99"), choice["prompt_logprobs"], strict=True)
    ] == [
        None,
        5,
        7,
    ]


async def test_ranks_that_do_not_fit_the_prompt_are_the_engines_fault() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [2], [0, 5]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(stream=False, details=Details(prompt_logprobs=0), sampling=sampling(prompt_logprobs=0))
    with pytest.raises(UpstreamError, match="cannot be read"):
        await Worker([message]).call(request)
