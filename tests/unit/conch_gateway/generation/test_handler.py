"""The flow of a request through the ASGI application, on fakes."""

import asyncio
from itertools import cycle

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.names import GENERATE_PATH, PREPARE_PATH
from conch_contracts.records import Engine, Profile, RoutingPolicy
from conch_kit.tracing import OtlpTracer
from testkit.gateway.fakes import (
    ENGINE,
    FakeAnswer,
    answered,
    gateway,
    lost,
    prepared,
    refused,
    route,
    snapshot,
    streamed,
)
from testkit.waiting import eventually

CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**CHAT, "stream": True}
FRAMES = (b'data: {"a":1}\n\n', b'data: {"a":2}\n\n', b"data: [DONE]\n\n")
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
PATH = "/v1/chat/completions"


async def test_a_complete_answer_passes_as_it_is():
    served = gateway({GENERATE_PATH: answered(b'{"id":"chatcmpl-1"}')})
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.body) == (200, b'{"id":"chatcmpl-1"}')
    assert answer.headers[b"content-type"] == b"application/json"
    assert served.registry.get_sample_value("conch_gateway_tokens_total", {"model": "tiny-chat", "kind": "prompt"}) == 3


async def test_the_worker_is_told_everything():
    served = gateway(known=snapshot(engines=(Engine(grpc=ENGINE, named_in="team"),)))
    await served.client.post(PATH, {**CHAT, "max_tokens": 7, "stop": "x", "n": 2, "temperature": 0})
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert (message["target"]["grpc"], message["target"]["named_in"]) == (ENGINE, "team")
    assert (message["sampling"]["max_tokens"], message["sampling"]["temperature"]) == (7, 0)
    assert (message["stop"], message["n"], message["api"]) == (["x"], 2, "chat")
    assert message["prompts"] == [{"ids": [0, 1, 2], "text": "xxx", "text_is_exact": True, "pictures": []}]
    (preparation,) = served.upstream.sent(PREPARE_PATH)
    assert (preparation["context"], preparation["chat"]["messages"]) == (64, [{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop_token_ids": [1000]}, "stop_token_ids"),  # the model has so many ids, from 0
        ({"messages": [1, 2, 1000]}, "messages"),
    ],
)
async def test_what_the_model_does_not_have_is_refused_before_anybody_is_asked(fields, param):
    served = gateway()
    answer = await served.client.post(PATH, {**CHAT, **fields})
    assert (answer.status, orjson.loads(answer.body)["error"]["param"]) == (400, param)
    assert served.upstream.sent(PREPARE_PATH) == []


async def test_what_the_services_are_sent_is_what_their_contracts_say():
    served = gateway()
    await served.client.post(PATH, {**CHAT, "logit_bias": {"5": 1}, "seed": 3, "bad_words": ["x"], "logprobs": True})
    prepare, generate = served.upstream.posts
    assert from_json(PrepareRequest, prepare.body).bad_words == ("x",)
    assert from_json(GenerateRequest, generate.body).sampling.logit_bias == {5: 1.0}


async def test_a_request_that_takes_too_long_is_a_504():
    never = asyncio.Event()
    known = snapshot(route(routing=RoutingPolicy(timeout_s=2)))
    served = gateway({GENERATE_PATH: streamed(never)}, known=known, worker_grace_s=0.02)
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (504, "timeout")
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert 0 < message["timeout_s"] <= 2  # the worker is to end it first, since it knows the usage


async def test_a_worker_that_falls_silent_between_two_tokens_is_given_up_long_before_the_requests_end():
    known = snapshot(route(routing=RoutingPolicy(timeout_s=600, first_token_timeout_s=600, inter_token_timeout_s=0.1)))
    scripts = {GENERATE_PATH: streamed(FRAMES[0], asyncio.Event())}
    served = gateway(scripts, known=known, keep_alive_s=0.3, worker_grace_s=0.02)
    answer = await asyncio.wait_for(served.client.post(PATH, STREAM), 30)
    assert answer.pieces[0] == FRAMES[0]
    assert b"The engine stopped answering." in answer.body


async def test_a_worker_that_says_nothing_at_all_is_given_up_long_before_the_requests_end():
    known = snapshot(route(routing=RoutingPolicy(timeout_s=600, first_token_timeout_s=0.1, inter_token_timeout_s=600)))
    scripts = {GENERATE_PATH: lambda _: FakeAnswer(503, pieces=(asyncio.Event(),))}
    served = gateway(scripts, known=known, keep_alive_s=0.3, worker_grace_s=0.02)
    answer = await asyncio.wait_for(served.client.post(PATH, STREAM), 30)
    assert b"The engine stopped answering." in answer.body


async def test_a_stream_is_relayed_without_the_usage_comment():
    served = gateway({GENERATE_PATH: streamed(*FRAMES, USAGE)})
    answer = await served.client.post(PATH, STREAM)
    assert answer.headers[b"openai-processing-ms"].isdigit()
    assert answer.body == b"".join(FRAMES)
    assert answer.headers[b"content-type"].startswith(b"text/event-stream")
    assert (
        served.registry.get_sample_value("conch_gateway_tokens_total", {"model": "tiny-chat", "kind": "completion"})
        == 2
    )


@pytest.mark.parametrize("room", [(True,), (False,), (True, True, False)], ids=["always", "never", "at times"])
async def test_frames_arrive_in_order_whatever_room_the_clients_buffer_has(room):
    frames = [b'data: {"a":%d}\n\n' % number for number in range(20)]
    served = gateway({GENERATE_PATH: streamed(*frames, FRAMES[-1][:7], FRAMES[-1][7:] + USAGE)})
    served.client.room = cycle(room).__next__
    answer = await served.client.post(PATH, STREAM)
    assert answer.body == b"".join((*frames, FRAMES[-1]))
    assert served.registry.get_sample_value("conch_gateway_inter_token_seconds_count", {"model": "tiny-chat"}) == 20


async def test_a_stream_that_breaks_while_pieces_are_pushed_ends_with_an_error_frame():
    served = gateway({GENERATE_PATH: streamed(*FRAMES[:2], lost(started=True))})
    served.client.room = lambda: True
    answer = await served.client.post(PATH, STREAM)
    assert answer.body.startswith(b"".join(FRAMES[:2]))
    assert b'"code":"upstream_lost"' in answer.body
    assert b"[DONE]" not in answer.body


async def test_a_request_id_is_kept_when_sane_and_made_otherwise():
    served = gateway()
    kept = await served.client.post(PATH, CHAT, [(b"x-request-id", b"abc-1")])
    made = await served.client.post(PATH, CHAT, [(b"x-request-id", b"a b\x00")])
    assert kept.headers[b"x-request-id"] == b"abc-1"
    assert len(made.headers[b"x-request-id"]) == 32
    assert (b"x-request-id", b"abc-1") in served.upstream.posts[0].headers


async def test_an_overflowing_prompt_is_refused_before_anything_queues():
    served = gateway({PREPARE_PATH: prepared(60)})
    answer = await served.client.post(PATH, {**CHAT, "max_tokens": 5})
    error = answer.error
    assert (answer.status, error["code"], error["param"]) == (400, "context_length_exceeded", "max_tokens")
    assert not served.upstream.sent(GENERATE_PATH)


async def test_a_prompt_of_ids_that_is_too_long_is_refused_without_asking_the_tokenizer():
    served = gateway()
    body = {"model": "tiny-chat", "prompt": [5] * 70, "max_tokens": 1}
    answer = await served.client.post("/v1/completions", body)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "context_length_exceeded", "prompt")
    assert not served.upstream.posts


async def test_a_broken_stream_ends_with_an_error_frame():
    served = gateway({GENERATE_PATH: streamed(FRAMES[0], b'data: {"half', lost(started=True))})
    answer = await served.client.post(PATH, STREAM)
    first, last = answer.body.strip().split(b"\n\n")
    assert first == FRAMES[0].strip()
    assert orjson.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_lost"


async def test_a_stream_that_just_stops_is_not_taken_for_a_complete_one():
    answer = await gateway({GENERATE_PATH: streamed(FRAMES[0])}).client.post(PATH, STREAM)
    assert b"upstream_lost" in answer.body
    assert b"[DONE]" not in answer.body


async def test_an_error_frame_of_the_worker_ends_the_stream():
    frame = b'data: {"error":{"message":"m","type":"t","param":null,"code":"c"}}\n\n'
    answer = await gateway({GENERATE_PATH: streamed(FRAMES[0], frame)}).client.post(PATH, STREAM)
    assert answer.body == FRAMES[0] + frame


@pytest.mark.parametrize(
    ("known", "code"),
    [
        (snapshot(engines=()), "model_not_ready"),
        (snapshot(workers=()), "overloaded"),
        (snapshot(tokenizers=()), "overloaded"),
    ],
)
async def test_nothing_to_run_on_is_a_503_with_a_hint(known, code):
    answer = await gateway(known=known).client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, code)
    assert answer.headers[b"retry-after"]


async def test_a_wrong_internal_token_is_not_the_clients_fault():
    answer = await gateway({GENERATE_PATH: lambda _: refused(403, "token")}).client.post(PATH, CHAT)
    assert answer.status == 502
    assert "token" not in answer.error["message"]


async def test_a_client_that_hangs_up_frees_worker_and_slot():
    never = asyncio.Event()
    served = gateway({GENERATE_PATH: streamed(FRAMES[0], never)})
    task = asyncio.create_task(served.client.post(PATH, STREAM))
    await asyncio.wait_for(served.upstream.asked(GENERATE_PATH).wait(), 60)
    served.client.hang_up()
    answer = await asyncio.wait_for(task, 60)
    assert answer.status == 200
    assert served.upstream.open == 0
    labels = {"endpoint": "chat", "model": "tiny-chat", "status": "499", "outcome": "gone"}
    assert served.registry.get_sample_value("conch_gateway_requests_total", labels) == 1
    assert served.registry.get_sample_value("conch_gateway_tokens_total", {"model": "tiny-chat", "kind": "prompt"}) == 3


async def test_a_silent_prefill_is_bridged_with_comments_and_errors_become_frames():
    release = asyncio.Event()

    served = gateway({GENERATE_PATH: streamed(release, lost(started=True))}, keep_alive_s=0.03)
    asked = asyncio.create_task(served.client.post(PATH, STREAM))
    await eventually(lambda: served.client.connections and served.client.connections[0].pieces, "a comment")
    release.set()
    answer = await asked
    assert answer.status == 200
    assert answer.pieces[0] == b": keep-alive\n\n"
    assert b"upstream_lost" in answer.body


async def test_unknown_fields_are_ignored_and_counted():
    served = gateway()
    assert (await served.client.post(PATH, {**CHAT, "foo": 1, "store": True})).status == 200
    assert served.registry.get_sample_value("conch_gateway_unknown_fields_total") == 1


async def test_a_bug_is_a_500_without_internals():
    def explode(_):
        raise ZeroDivisionError("secret")

    answer = await gateway({GENERATE_PATH: explode}).client.post(PATH, CHAT)
    assert answer.status == 500
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("body", "worker", "missing"),
    [
        (CHAT, answered(b"{}", usage=b"x"), 1),
        (CHAT, answered(b"{}"), 0),
        (STREAM, streamed(*FRAMES), 1),
        (STREAM, streamed(*FRAMES, USAGE), 0),
        (STREAM, streamed(FRAMES[0], lost(started=True)), 0),
    ],
)
async def test_a_complete_answer_without_its_usage_is_counted(body, worker, missing):
    served = gateway({GENERATE_PATH: worker})
    await served.client.post(PATH, body)
    name, labels = "conch_gateway_missing_usage_total", {"model": "tiny-chat"}
    assert served.registry.get_sample_value(name, labels) == missing


async def test_who_waits_and_who_works_is_told_apart():
    never = asyncio.Event()
    served = gateway({GENERATE_PATH: streamed(never)}, known=snapshot(engines=(Engine(grpc=ENGINE, slots=1),)))
    tasks = [asyncio.create_task(served.client.post(PATH, CHAT)) for _ in range(3)]
    await asyncio.wait_for(served.upstream.asked(GENERATE_PATH).wait(), 60)
    await eventually(lambda: sum(served.admission.waiting().values()) == 2, "two who wait")
    labels = {"model": "tiny-chat"}
    names = ("conch_gateway_waiting", "conch_gateway_in_flight")
    assert [served.registry.get_sample_value(name, labels) for name in names] == [2, 1]
    never.set()
    await asyncio.gather(*tasks)
    assert [served.registry.get_sample_value(name, labels) for name in names] == [0, 0]


CLIENT_TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_spans_tell_waiting_from_working_and_the_services_continue_the_trace():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    served = gateway(spans=OtlpTracer(provider))
    await served.client.post(PATH, CHAT, [(b"traceparent", CLIENT_TRACE), (b"x-request-id", b"mine")])
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"chat", "tokenize", "wait", "work"}
    assert spans["chat"].attributes["request_id"] == "mine"
    assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {CLIENT_TRACE[3:35].decode()}
    assert {spans[name].parent.span_id for name in ("tokenize", "wait", "work")} == {spans["chat"].context.span_id}
    told = [dict(post.headers)[b"traceparent"][36:52].decode() for post in served.upstream.posts]
    assert told == [f"{spans[name].context.span_id:016x}" for name in ("tokenize", "work")]


async def test_without_tracing_the_clients_trace_is_passed_on():
    served = gateway()
    await served.client.post(PATH, CHAT, [(b"traceparent", CLIENT_TRACE)])
    assert [dict(post.headers)[b"traceparent"] for post in served.upstream.posts] == [CLIENT_TRACE] * 2


async def test_all_choices_of_all_prompts_count_for_admission():
    release = asyncio.Event()
    scripts = {PREPARE_PATH: prepared(3, 3), GENERATE_PATH: streamed(release, b"{}")}
    served = gateway(scripts, known=snapshot(engines=(Engine(grpc=ENGINE, slots=4),)))
    body = {"model": "tiny-chat", "prompt": ["a", "b"], "n": 2}
    tasks = [asyncio.create_task(served.client.post("/v1/completions", body)) for _ in range(2)]
    await eventually(lambda: sum(served.admission.waiting().values()) == 1, "one who waits")
    release.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200, 200]


async def test_a_request_id_in_the_body_names_answer_and_reply():
    served = gateway()
    named = await served.client.post(PATH, {**CHAT, "request_id": "job-7"})
    both = await served.client.post(PATH, {**CHAT, "request_id": "job-8"}, [(b"x-request-id", b"head")])
    assert named.headers[b"x-request-id"] == b"job-7"
    assert both.headers[b"x-request-id"] == b"head"
    assert [message["response_id"] for message in served.upstream.sent(GENERATE_PATH)] == [
        "chatcmpl-job-7",
        "chatcmpl-job-8",
    ]


async def test_every_choice_that_is_made_takes_a_slot():
    served = gateway(known=snapshot(engines=(Engine(grpc=ENGINE, slots=9),)))
    await served.client.post(PATH, {**CHAT, "n": 2, "best_of": 5})
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert (message["n"], message["best_of"], message["target"]["slots"]) == (2, 5, 5)


async def test_a_template_in_a_request_is_refused_unless_the_gateway_allows_it():
    body = {**CHAT, "chat_template": "{{ messages }}"}
    closed, open_ = gateway(), gateway(chat_templates=True)
    answer = await closed.client.post(PATH, body)
    assert (answer.status, answer.error["param"]) == (400, "chat_template")
    assert (await open_.client.post(PATH, body)).status == 200
    (asked,) = open_.upstream.sent(PREPARE_PATH)
    assert asked["chat"]["chat_template"] == "{{ messages }}"


@pytest.mark.parametrize("name", ["tokenize", "chat_template", "messages", "documents", "__class__", "x" * 10_000])
async def test_a_variable_that_is_not_allowed_is_refused(name):
    answer = await gateway().client.post(PATH, {**CHAT, "chat_template_kwargs": {name: True}})
    assert (answer.status, answer.error["param"]) == (400, "chat_template_kwargs")
    assert len(answer.body) < 600


async def test_a_variable_that_the_settings_name_reaches_the_template():
    served = gateway(template_variables=("mood",))
    assert (await served.client.post(PATH, {**CHAT, "chat_template_kwargs": {"mood": "glad"}})).status == 200
    assert served.upstream.sent(PREPARE_PATH)[0]["chat"]["template_kwargs"] == {"mood": "glad"}


@pytest.mark.parametrize(("profile", "prefix"), [(Profile.DENGLIN, "cmpl-"), (Profile.OPENAI, "chatcmpl-")])
async def test_the_profile_decides_what_an_answers_id_begins_with(profile, prefix):
    served = gateway(known=snapshot(route(profile=profile)))
    await served.client.post(PATH, CHAT)
    assert served.upstream.sent(GENERATE_PATH)[0]["response_id"].startswith(prefix)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"profile": Profile.FASTDEPLOY, "default": True}, 200),
        ({"profile": Profile.FASTDEPLOY}, 200),
        ({"default": True}, 404),
    ],
)
async def test_only_a_model_with_fastdeploys_habits_answers_to_any_name(changes, status):
    served = gateway(known=snapshot(route(**changes)))
    answer = await served.client.post(PATH, {**CHAT, "model": "nobody"})
    assert answer.status == status
    if status == 200:
        assert served.upstream.sent(GENERATE_PATH)[0]["model"] == "tiny-chat"


async def test_a_tokenizer_that_gives_no_prompt_is_not_taken_at_its_word():
    served = gateway({PREPARE_PATH: answered(b'{"prompts":[]}')})
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, orjson.loads(answer.body)["error"]["message"]) == (503, "No tokenizer answered.")
