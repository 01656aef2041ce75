"""The flow of a request with a file through the ASGI application, on fakes."""

import asyncio

import orjson
import pytest

from conch_contracts.messages.transcription import SpeechTask, TranscriptFormat
from conch_contracts.names import PREPARE_PATH, TRANSCRIBE_PATH, EngineAddress, WorkerUrl
from conch_contracts.records import Engine, Profile, RoutingPolicy
from testkit.gateway.fakes import ENGINE, WORKER, FakeAnswer, answered, lost, refused, snapshot, streamed
from testkit.gateway.speech import TRANSCRIPTIONS, TRANSLATIONS, USAGE, WHISPER, asked, serving, speech_route
from testkit.http.forms import AUDIO, HEADERS, file_part, form, parts, text_part
from testkit.waiting import eventually

TEXT = b'{"text":"three nine"}'
DELTA = b'data: {"type":"transcript.text.delta","delta":"three"}\n\n'
DONE = b'data: {"type":"transcript.text.done","text":"three"}\n\n'
END = b"data: [DONE]\n\n"
USAGE_COMMENT = b": usage " + USAGE + b"\n\n"
OTHER = EngineAddress("127.0.0.1:8002")


async def post(served, *fields, path=TRANSCRIPTIONS, **rest):
    return await served.client.post(path, form(*fields, **rest), HEADERS)


async def test_a_file_goes_to_a_worker_behind_what_is_asked_for():
    served = serving(answered(TEXT, USAGE))
    answer = await post(served, ("model", "whisper-1"), ("language", "de"), ("seed", "7"), file_last=True)
    assert (answer.status, answer.body) == (200, TEXT)
    assert answer.headers[b"content-type"] == b"application/json"
    (sent,) = served.upstream.posts
    assert (sent.path, served.upstream.files) == (TRANSCRIBE_PATH, [AUDIO])
    message = asked(sent.body)
    assert (message.model, message.task, message.language) == ("whisper-1", SpeechTask.TRANSCRIBE, "de")
    assert (message.file_bytes, message.format, message.stream) == (len(AUDIO), TranscriptFormat.JSON, None)
    assert (message.target.grpc, message.target.model, message.target.context) == (ENGINE, "ear", 64)
    assert message.request_id == answer.headers[b"x-request-id"].decode()
    assert message.parameters.temperatures == (0, 0.2, 0.4, 0.6, 0.8, 1)
    thresholds = message.parameters
    assert thresholds.compression_ratio_threshold == 2.4
    assert (thresholds.logprob_threshold, thresholds.no_speech_threshold) == (-1, 0.6)
    assert (message.parameters.seed, message.parameters.max_tokens) == (7, 64)


@pytest.mark.parametrize(
    ("fields", "temperatures"),
    [
        ([("temperature", "0")], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([("temperature", "0.0")], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([("temperature", "0.3")], (0.3,)),
        ([("temperature", "1")], (1,)),
    ],
)
async def test_a_temperature_that_is_named_is_the_only_one(fields, temperatures):
    served = serving(answered(TEXT, USAGE))
    await post(served, *fields)
    assert asked(served.upstream.posts[0].body).parameters.temperatures == temperatures


async def test_how_tokens_are_drawn_is_told():
    served = serving(answered(TEXT, USAGE))
    drawing = {
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "repetition_penalty": 1.5,
        "frequency_penalty": -1,
        "presence_penalty": 2,
    }
    fields = [(name, str(value)) for name, value in drawing.items()]
    await post(served, *fields, ("max_completion_tokens", "5"))
    parameters = asked(served.upstream.posts[0].body).parameters
    assert {name: getattr(parameters, name) for name in drawing} == drawing
    assert parameters.max_tokens == 5


async def test_the_worker_is_told_how_long_its_engine_may_take():
    times = {"timeout_s": 600, "first_token_timeout_s": 12, "inter_token_timeout_s": 3}
    served = serving(answered(TEXT, USAGE), known=[speech_route(routing=RoutingPolicy(**times))])
    await post(served)
    told = asked(served.upstream.posts[0].body)
    assert (told.first_token_timeout_s, told.inter_token_timeout_s) == (12, 3)
    assert 590 < told.timeout_s <= 600


async def test_the_worker_is_told_how_much_sound_it_may_hear():
    bounded = WHISPER.model_copy(update={"max_audio_s": 77.0})
    served = serving(answered(TEXT, USAGE), known=[speech_route(bounded)])
    await post(served)
    assert asked(served.upstream.posts[0].body).max_audio_s == 77.0


async def test_a_worker_that_says_nothing_at_all_is_given_up_long_before_the_requests_end():
    silent = RoutingPolicy(timeout_s=600, first_token_timeout_s=0.1, inter_token_timeout_s=600)
    worker = FakeAnswer(503, pieces=(asyncio.Event(),))
    served = serving(lambda _: worker, known=[speech_route(routing=silent)], keep_alive_s=0.3, worker_grace_s=0.02)
    answer = await asyncio.wait_for(post(served, ("stream", "true")), 30)
    assert b"The engine stopped answering." in answer.body


async def test_the_room_of_one_file_is_there_again_for_the_next():
    served = serving(answered(TEXT, USAGE), upload_spool_bytes=3 * 2**20)
    for _ in range(3):
        file = b"x" * (5 * 2**20 // 2)  # more than stays in memory
        answer = await served.client.post(TRANSCRIPTIONS, form(content=file), HEADERS)
        assert answer.status == 200


async def test_files_of_batches_that_wait_for_an_engine_leave_room_to_those_that_wake_it():
    model, size, priority = speech_route(wakes=True, hold_max=9), 5 * 2**20 // 2, ("priority", "10")
    served = serving(answered(TEXT, USAGE), known=[model], engines=(), upload_spool_bytes=5 * size)
    tasks = []
    for fields in ([], [priority]):
        tasks.append(asyncio.create_task(post(served, *fields, content=b"x" * size)))
        await eventually(lambda: served.admission.waiting()[model.model_id] == len(tasks), "one more that is held")
    late = await asyncio.wait_for(post(served, priority, content=b"x" * size), 30)
    assert (late.status, late.error["message"]) == (503, "The server has no room for another upload.")
    tasks.append(asyncio.create_task(post(served, content=b"x")))
    await eventually(lambda: served.admission.waiting()[model.model_id] == len(tasks), "one that wakes the model")
    served.learn(snapshot(model, engines=(Engine(grpc=ENGINE, slots=8),)))
    assert [(await task).status for task in tasks] == [200] * 3


async def test_more_tokens_than_the_context_has_are_not_asked_for():
    served = serving(answered(TEXT, USAGE))
    await post(served, ("max_completion_tokens", "5000"))
    assert asked(served.upstream.posts[0].body).parameters.max_tokens == 64


async def test_a_prompt_goes_as_the_ids_that_the_tokenizer_makes_of_its_pieces():
    tokenizer = answered(orjson.dumps({"prompts": [{"ids": [1, 2], "text": "a<"}, {"ids": [3], "text": "|en|>"}]}))
    served = serving(answered(TEXT, USAGE), tokenizer=tokenizer)
    await post(served, ("prompt", "a<|en|>"))
    assert asked(served.upstream.posts[-1].body).prompt_ids == (1, 2, 3)


async def test_without_a_prompt_no_tokenizer_is_asked():
    served = serving(answered(TEXT, USAGE))
    await post(served)
    assert not served.upstream.asked(PREPARE_PATH).is_set()


@pytest.mark.parametrize(
    ("text_format", "media_type", "body"),
    [
        ("text", b"text/plain; charset=utf-8", b"three nine\n"),
        ("text", b"text/plain; charset=utf-8", b""),
        ("srt", b"text/plain; charset=utf-8", b"1\n00:00:00,000 --> 00:00:01,000\nthree\n\n"),
        ("vtt", b"text/vtt; charset=utf-8", b"WEBVTT\n\n"),
        ("verbose_json", b"application/json", TEXT),
    ],
)
async def test_an_answer_has_the_form_that_was_asked_for(text_format, media_type, body):
    served = serving(answered(body, USAGE))
    answer = await post(served, ("response_format", text_format))
    assert (answer.status, answer.headers[b"content-type"], answer.body) == (200, media_type, body)
    assert asked(served.upstream.posts[0].body).format == text_format


async def test_json_that_is_none_is_a_fault_of_the_worker():
    answer = await post(serving(answered(b"three", USAGE)))
    assert (answer.status, answer.error["code"]) == (502, "upstream_error")


async def test_a_translation_says_so():
    served = serving(answered(TEXT, USAGE))
    answer = await post(served, ("response_format", "verbose_json"), path=TRANSLATIONS)
    message = asked(served.upstream.posts[0].body)
    assert (answer.status, message.task, message.segments) == (200, SpeechTask.TRANSLATE, True)


async def test_what_an_answer_used_is_counted_and_told_by_endpoint():
    served = serving(answered(TEXT, USAGE))
    await post(served)
    await post(served, path=TRANSLATIONS)
    value = served.registry.get_sample_value
    assert value("conch_gateway_audio_seconds_total", {"model": "ear"}) == 5
    assert value("conch_gateway_tokens_total", {"model": "ear", "kind": "completion"}) == 14
    for endpoint in ("transcriptions", "translations"):
        labels = {"endpoint": endpoint, "model": "ear", "status": "200", "outcome": "ok"}
        assert value("conch_gateway_requests_total", labels) == 1


async def test_a_stream_is_relayed_without_what_is_for_the_gateway():
    served = serving(streamed(b": working\n\n", DELTA, DONE, END, USAGE_COMMENT))
    answer = await post(served, ("stream", "true"))
    assert answer.body == DELTA + DONE + END
    assert answer.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert asked(served.upstream.posts[0].body).stream == "openai"
    assert served.registry.get_sample_value("conch_gateway_audio_seconds_total", {"model": "ear"}) == 2.5


async def test_a_stream_of_a_model_with_the_habits_of_vllm_has_its_events():
    served = serving(streamed(DELTA, END, USAGE_COMMENT), known=[speech_route(profile=Profile.VLLM)])
    await post(served, ("stream", "true"), ("stream_include_usage", "true"), ("stream_continuous_usage_stats", "true"))
    message = asked(served.upstream.posts[0].body)
    assert (message.stream, message.include_usage, message.continuous_usage) == ("vllm", True, True)


async def test_a_stream_that_breaks_ends_with_an_error():
    served = serving(streamed(DELTA, lost(started=True)))
    answer = await post(served, ("stream", "true"))
    assert answer.status == 200
    assert answer.body.startswith(DELTA + b'data: {"error"')
    assert not answer.body.endswith(END)


async def test_the_file_is_sent_again_to_another_engine_and_to_another_worker():
    attempts = [
        refused(503, "full", retryable=True),
        lost(),
        FakeAnswer(headers={b"x-conch-usage": USAGE}, pieces=(TEXT,)),
    ]
    engines = (Engine(grpc=ENGINE), Engine(grpc=OTHER))
    workers = (WORKER, WorkerUrl("http://127.0.0.1:7003"))
    served = serving(lambda _: attempts.pop(0), engines=engines, workers=workers)
    answer = await post(served)
    assert (answer.status, answer.body) == (200, TEXT)
    assert served.upstream.files == [AUDIO] * 3
    engines_asked = [asked(sent.body).target.grpc for sent in served.upstream.posts]
    assert engines_asked[0] != engines_asked[1] == engines_asked[2]
    assert served.upstream.posts[1].url != served.upstream.posts[2].url


async def test_an_error_of_the_worker_passes():
    served = serving(lambda _: refused(400, "Unrecognized file format.", param="file", code="unsupported_format"))
    answer = await post(served)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "unsupported_format", "file")


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "param"),
    [
        (b"{}", ((b"content-type", b"application/json"),), 415, "unsupported_media_type", None),
        (form(), ((b"content-type", b"multipart/form-data"),), 400, "invalid_multipart", None),
        (form()[:-10], HEADERS, 400, "invalid_multipart", None),
        (parts(text_part("model", "ear")), HEADERS, 400, "missing_required_parameter", "file"),
        (parts(text_part("file", "abc")), HEADERS, 422, "invalid_value", "file"),
        (form(("model", "nobody")), HEADERS, 404, "model_not_found", "model"),
        (form(content=b""), HEADERS, 400, "audio_too_short", "file"),
        (form(content=b"x" * 3000), HEADERS, 413, "request_too_large", "file"),
        (parts(file_part(), file_part()), HEADERS, 400, "invalid_value", "file"),
        (form(("model", "ear"), ("model", "ear")), HEADERS, 400, "invalid_value", "model"),
        (form(("prompt", "a\0")), HEADERS, 400, "invalid_value", "prompt"),
        (form(("prompt", b"\xff")), HEADERS, 400, "invalid_value", "prompt"),
        (form(("vllm_xargs", "{")), HEADERS, 400, "invalid_value", "vllm_xargs"),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong_with_it(body, headers, status, code, param):
    served = serving(answered(TEXT, USAGE), max_upload_bytes=2000)
    answer = await served.client.post(TRANSCRIPTIONS, body, headers)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (status, code, param)
    assert answer.error["type"] == "invalid_request_error"
    assert served.upstream.posts == []


async def test_an_upload_that_finds_no_room_is_a_503():
    served = serving(answered(TEXT, USAGE), upload_spool_bytes=1024)
    answer = await post(served, content=b"x" * 3_000_000)
    assert (answer.status, answer.error["code"], answer.headers[b"retry-after"]) == (503, "overloaded", b"5")


async def test_a_full_queue_is_a_429():
    route = speech_route()
    known = route.model_copy(update={"routing": route.routing.model_copy(update={"queue_max": 0})})
    stays = asyncio.Event()
    served = serving(streamed(stays), engines=(Engine(grpc=ENGINE, slots=1),), known=[known])
    first = asyncio.create_task(post(served))
    await served.upstream.asked(TRANSCRIBE_PATH).wait()
    answer = await post(served)
    assert (answer.status, 1 <= int(answer.headers[b"retry-after"]) <= 4) == (429, True)
    served.client.hang_up()
    await first


async def test_a_client_that_hangs_up_frees_the_worker():
    stays = asyncio.Event()
    served = serving(streamed(stays))
    waiting = asyncio.create_task(post(served))
    await served.upstream.asked(TRANSCRIBE_PATH).wait()
    served.client.hang_up()
    await waiting
    assert served.upstream.open == 0


async def test_an_upload_may_take_longer_than_other_bodies():
    served = serving(answered(TEXT, USAGE), upload_timeout_s=123)
    await post(served)
    assert served.client.connections[0].allowed_s == 123


async def test_the_client_names_its_request_and_who_asks():
    served = serving(answered(TEXT, USAGE))
    answer = await post(served, ("request_id", "mine-1"), ("user", "ann"))
    assert answer.headers[b"x-request-id"] == b"mine-1"
    assert asked(served.upstream.posts[0].body).request_id == "mine-1"
