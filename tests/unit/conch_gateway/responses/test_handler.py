"""`POST /v1/responses` and what is kept of it, on fakes."""

import re

import orjson
import pytest

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import CHECK_GRAMMAR_PATH, GENERATE_PATH, PREPARE_PATH
from conch_contracts.records import ChatProfile
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.generation import cold_start
from conch_gateway.http.auth import ApiKeys
from conch_gateway.placement.claim import Claim
from conch_gateway.responses import response_saver
from testkit.gateway.fakes import FakeAnswer, answered, gateway, lost, route, snapshot, streamed
from testkit.gateway.memory_responses import MemoryResponses

PATH = "/v1/responses"
ASKED = {"model": "tiny-chat", "input": "hi"}
STREAM = {**ASKED, "stream": True}
FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
OUTPUT = [
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}],
    }
]
BODY = orjson.dumps({"object": "response", "status": "completed", "output": OUTPUT})
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":7}\n\n'
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
ABSENT = "/v1/responses/resp_" + "0" * 32


def last(kind=b"completed", body=BODY):
    return b'event: response.%b\ndata: {"type":"response.%b","response":%b}\n\n' % (kind, kind, body)


def end(kind=b"completed"):
    return b": response " + BODY + b"\n\n" + last(kind) + USAGE


def served(*frames, store=None, **more):
    worker = streamed(*frames) if frames else answered(BODY)
    return gateway({GENERATE_PATH: worker}, responses=store or MemoryResponses(), **more)


def made_id(running):
    return running.upstream.sent(GENERATE_PATH)[-1]["response_id"]


def kept(body=BODY, stored=b"true"):
    return body[:-1] + b',"store":' + stored + b"}"


async def test_the_worker_is_told_everything_and_what_the_answer_repeats():
    running = served()
    asked = {**ASKED, "instructions": "Be brief.", "max_output_tokens": 7, "metadata": {"a": "b"}, "temperature": 0}
    asked |= {"presence_penalty": 0.5, "store": False}
    await running.client.post(PATH, asked)
    prepare, generate = running.upstream.posts
    message = from_json(GenerateRequest, generate.body)
    assert (message.api, message.sampling.max_tokens, message.stream) == ("responses", 7, False)
    assert re.fullmatch("resp_[0-9a-f]{32}", message.response_id)
    fields = orjson.loads(message.response_fields)
    assert (fields["instructions"], fields["metadata"], fields["temperature"], fields["top_p"]) == (
        "Be brief.",
        {"a": "b"},
        0.0,
        1.0,
    )
    assert (fields["presence_penalty"], fields["frequency_penalty"], fields["store"]) == (0.5, 0.0, False)
    assert orjson.loads(prepare.body)["chat"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


async def test_what_other_servers_add_to_this_api_means_what_it_means_in_chat(monkeypatch):
    claims = []
    monkeypatch.setattr(cold_start, "Claim", lambda *values: claims.append(values) or Claim(*values))
    running = served()
    asked = {"structured_outputs": {"choice": ["yes", "no"]}, "logit_bias": {"5": -100}, "priority": -3}
    asked |= {"cache_salt": "s", "chat_template_kwargs": {"enable_thinking": True}, "skip_special_tokens": False}
    asked |= {"stop": ["."], "include_stop_str_in_output": True}
    assert (await running.client.post(PATH, {**ASKED, **asked})).status == 200
    (prepare,) = (orjson.loads(post.body) for post in running.upstream.posts if post.path == PREPARE_PATH)
    (generate,) = (post.body for post in running.upstream.posts if post.path == GENERATE_PATH)
    message = from_json(GenerateRequest, generate)
    assert prepare["chat"]["template_kwargs"]["enable_thinking"] is True
    assert message.sampling.logit_bias == {5: -100}
    assert message.sampling.grammar is not None
    assert message.include_stop_str_in_output is True
    assert message.skip_special_tokens is False
    assert message.backend.cache_salt == "s"
    assert [claim[:2] for claim in claims] == [(1, -3)]


async def test_an_answer_is_kept_with_what_the_model_was_given():
    running = served()
    answer = await running.client.post(PATH, ASKED)
    assert (answer.status, answer.body) == (200, kept())
    found = await running.client.get(f"{PATH}/{made_id(running)}")
    assert orjson.loads(found.body) == orjson.loads(kept())
    items = orjson.loads((await running.client.get(f"{PATH}/{made_id(running)}/input_items")).body)
    assert [item["content"][0]["text"] for item in items["data"]] == ["hi"]


@pytest.mark.parametrize("cut", [1, 5, 60, 100, 10_000])
async def test_the_last_event_of_a_stream_comes_after_the_answer_was_kept(cut):
    raw = DELTA + end()
    running = served(*(raw[at : at + cut] for at in range(0, len(raw), cut)))
    answer = await running.client.post(PATH, STREAM)
    assert answer.body == DELTA + last(body=kept())
    found = await running.client.get(f"{PATH}/{made_id(running)}")
    assert orjson.loads(found.body) == orjson.loads(kept())
    tokens = {"model": "tiny-chat", "kind": "completion"}
    assert running.registry.get_sample_value("conch_gateway_tokens_total", tokens) == 2


@pytest.mark.parametrize("frames", [(), (DELTA, end())])
async def test_an_answer_that_shall_not_be_kept_says_so_and_is_not(frames):
    store = MemoryResponses()
    answer = await served(*frames, store=store).client.post(PATH, {**ASKED, "store": False, "stream": bool(frames)})
    assert b',"store":false}' in answer.body
    assert store.records == {}


@pytest.mark.parametrize("frames", [(), (DELTA, end())])
async def test_without_the_store_answers_come_and_say_that_they_are_not_kept(frames):
    store = MemoryResponses()
    store.away = True
    running = served(*frames, store=store)
    answer = await running.client.post(PATH, {**ASKED, "stream": bool(frames)})
    assert answer.status == 200
    assert b',"store":false}' in answer.body
    assert running.registry.get_sample_value("conch_gateway_responses_lost_total") == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", ABSENT, b""),
        ("DELETE", ABSENT, b""),
        ("GET", ABSENT + "/input_items", b""),
        ("POST", ABSENT + "/cancel", b""),
        ("POST", PATH, orjson.dumps({**ASKED, "previous_response_id": "resp_" + "0" * 32})),
    ],
)
@pytest.mark.parametrize(("away", "status"), [(False, 404), (True, 503)])
async def test_an_unknown_id_and_a_store_that_is_away_are_told_apart(method, path, body, away, status):
    store = MemoryResponses()
    store.away = away
    answer = await served(store=store).client.call(method, path, body)
    assert answer.status == (400 if status == 404 and path == PATH else status)
    assert set(answer.error) == {"message", "type", "param", "code"}
    if away:
        assert answer.headers[b"retry-after"]


async def test_an_answer_that_is_too_large_to_be_kept_says_that_it_is_not(monkeypatch):
    monkeypatch.setattr(response_saver, "MAX_RECORD_BYTES", 100)
    store = MemoryResponses()
    served = gateway({GENERATE_PATH: answered(BODY)}, responses=store)
    answer = await served.client.post(PATH, {"input": "x" * 100})
    assert (answer.status, orjson.loads(answer.body)["store"], store.records) == (200, False, {})
    assert served.registry.get_sample_value("conch_gateway_responses_lost_total") == 1


async def test_a_conversation_is_restored_and_grows():
    running = served()
    await running.client.post(PATH, ASKED)
    for _ in range(2):
        await running.client.post(PATH, {**ASKED, "previous_response_id": made_id(running)})
    turns = [
        [message["content"] for message in work["chat"]["messages"]] for work in running.upstream.sent(PREPARE_PATH)
    ]
    assert turns == [["hi"], ["hi", "yes", "hi"], ["hi", "yes", "hi", "yes", "hi"]]


async def test_a_response_belongs_to_the_key_that_asked_for_it(tmp_path):
    file = tmp_path / "keys"
    file.write_text("ann:sk-a\nbob:sk-b\n")
    keys = ApiKeys(file)
    await keys.load()
    running = served(keys=keys)
    ann, bob = ([(b"authorization", b"Bearer " + key)] for key in (b"sk-a", b"sk-b"))
    await running.client.call("POST", PATH, orjson.dumps(ASKED), ann)
    path = f"{PATH}/{made_id(running)}"
    again = orjson.dumps({**ASKED, "previous_response_id": made_id(running)})
    assert (await running.client.get(path, bob)).status == 404
    assert (await running.client.call("DELETE", path, b"", bob)).status == 404
    assert (await running.client.call("POST", PATH, again, bob)).error["code"] == "previous_response_not_found"
    assert (await running.client.get(path)).status == 401
    assert (await running.client.get(path, ann)).status == 200


@pytest.mark.parametrize(
    ("frames", "number"), [((DELTA, lost(started=True)), 8), ((DELTA,), 8), ((DELTA, b": response {}\n\n"), 8)]
)
async def test_a_stream_that_breaks_ends_with_an_event_of_the_next_number(frames, number):
    answer = await served(*frames).client.post(PATH, STREAM)
    event = answer.body.removeprefix(DELTA)
    name, data, *_ = event.split(b"\n")
    assert name == b"event: error"
    told = orjson.loads(data.removeprefix(b"data: "))
    assert (told["type"], told["sequence_number"], told["code"]) == ("error", number, "upstream_lost")
    assert told["error"]["message"] == told["message"]


async def test_a_failed_answer_is_kept_too_and_counts_as_broken():
    running = served(DELTA, end(b"failed"))
    answer = await running.client.post(PATH, STREAM)
    assert answer.body.endswith(last(b"failed", kept()))
    assert (await running.client.get(f"{PATH}/{made_id(running)}")).status == 200


@pytest.mark.parametrize(
    ("query", "texts", "more"),
    [
        (b"", ["5", "4", "3", "2", "1"], False),
        (b"order=asc&limit=2", ["1", "2"], True),
        (b"limit=5", ["5", "4", "3", "2", "1"], False),
        (b"order=asc&after=m2&limit=2", ["3", "4"], True),
        (b"order=desc&after=m1", [], False),
    ],
)
async def test_the_items_of_a_response_come_in_pages(query, texts, more):
    running = served()
    items = [{"role": "user", "content": str(number), "id": f"m{number}"} for number in range(1, 6)]
    await running.client.post(PATH, {**ASKED, "input": items})
    answer = await running.client.get(f"{PATH}/{made_id(running)}/input_items", query=query)
    page = orjson.loads(answer.body)
    assert [item["content"][0]["text"] for item in page["data"]] == texts
    assert page["has_more"] is more
    assert (page["first_id"], page["last_id"]) == ((f"m{texts[0]}", f"m{texts[-1]}") if texts else (None, None))


@pytest.mark.parametrize(
    ("query", "param"),
    [(b"limit=0", "limit"), (b"limit=x", "limit"), (b"order=up", "order"), (b"after=m9", "after")],
)
async def test_a_query_that_is_wrong_names_its_parameter(query, param):
    running = served()
    await running.client.post(PATH, ASKED)
    answer = await running.client.get(f"{PATH}/{made_id(running)}/input_items", query=query)
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_a_refusal_of_the_worker_stays_a_status():
    error = {"error": {"message": "no", "type": "x", "param": "messages", "code": "template_error"}}
    running = gateway({PREPARE_PATH: lambda _: FakeAnswer(400, {}, (orjson.dumps(error),))})
    answer = await running.client.post(PATH, STREAM)
    assert (answer.status, answer.error["param"]) == (400, "input")


TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": None}
WITH_TOOLS = route(chat=ChatProfile(takes_tools=True, tool_calls=ToolCallParser.HERMES))


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        (None, ["f", "g"]),
        ("none", []),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}, ["g"]),
    ],
)
async def test_tools_reach_the_template_and_the_reader_of_the_answer(choice, offered):
    running = served(known=snapshot(WITH_TOOLS))
    asked = {**ASKED, "tools": [TOOL, {**TOOL, "name": "g"}], "tool_choice": choice}
    assert (await running.client.post(PATH, asked)).status == 200
    (prepare,), (generate,) = running.upstream.sent(PREPARE_PATH), running.upstream.sent(GENERATE_PATH)
    shown = [tool["function"]["name"] for tool in prepare["chat"]["tools"] or []]
    read = generate["parsing"]["calls"]["names"] if generate["parsing"] else []
    assert shown == read == offered
    assert orjson.loads(generate["response_fields"])["tools"] == asked["tools"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tool_choice": {"type": "function", "name": "h"}}, "tool_choice.name"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "h"}]}},
            "tool_choice.tools.0.name",
        ),
        ({"tools": [TOOL, TOOL]}, "tools.1.name"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice.name"),
        ({"text": {"format": {"type": "json_object"}}, "structured_outputs": {"regex": "a"}}, "structured_outputs"),
        (
            {
                "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
                "structured_outputs": {"regex": "a"},
            },
            "structured_outputs",
        ),
    ],
)
async def test_what_is_wrong_with_tools_has_this_apis_path(changes, param):
    answer = await served(known=snapshot(WITH_TOOLS)).client.post(PATH, {**ASKED, "tools": [TOOL], **changes})
    assert answer.status == 400
    assert answer.error["param"].startswith(param)
    for chats in (".function", "json_schema.", "response_format", "allowed_tools."):
        assert chats not in answer.error["param"] + answer.error["message"]


async def test_a_tool_keeps_its_place_where_only_some_are_allowed():
    pythonic = route(chat=ChatProfile(takes_tools=True, tool_calls=ToolCallParser.PYTHONIC))
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}
    asked = {**ASKED, "tools": [TOOL, {**TOOL, "name": "g", "strict": True}], "tool_choice": allowed}
    answer = await served(known=snapshot(pythonic)).client.post(PATH, asked)
    assert (answer.status, answer.error["param"]) == (400, "tools.1.strict")


async def test_a_format_reaches_the_engine_as_a_grammar():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    asked = {**ASKED, "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}}
    running = gateway({CHECK_GRAMMAR_PATH: lambda _: FakeAnswer(pieces=(b"{}",))}, responses=MemoryResponses())
    assert (await running.client.post(PATH, asked)).status == 200
    (generate,) = running.upstream.sent(GENERATE_PATH)
    assert generate["sampling"]["grammar"]["kind"] == "json_schema"
    assert orjson.loads(generate["response_fields"])["text"]["format"]["schema"] == schema


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, {"format": {"type": "text"}}),
        ({"text": {"verbosity": "low"}}, {"format": {"type": "text"}, "verbosity": "low"}),
        ({"text": {"format": FORMAT}}, {"format": {**FORMAT, "description": "", "strict": False}}),
        (
            {"text": {"format": {**FORMAT, "description": "d", "strict": True}}},
            {"format": {**FORMAT, "description": "d", "strict": True}},
        ),
    ],
)
async def test_the_answer_tells_all_of_its_form(asked, told):
    running = served()
    assert (await running.client.post(PATH, {**ASKED, **asked})).status == 200
    (generate,) = running.upstream.sent(GENERATE_PATH)
    assert orjson.loads(generate["response_fields"])["text"] == told
