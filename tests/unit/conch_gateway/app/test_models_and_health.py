"""What the gateway serves beside inference: models, health, and the OpenAPI document."""

import re

import orjson
import pytest

from conch_contracts.records import Engine, ModelKind, PictureProfile
from conch_gateway.app.models_and_health import model_endpoints
from conch_gateway.encoders.endpoints import ENCODER_PATHS
from conch_gateway.encoders.tokenize_endpoints import DETOKENIZE_PATHS, TOKENIZE_PATHS
from conch_gateway.generation.handler import PATHS
from conch_gateway.http.auth import OPEN_PATHS
from conch_gateway.http.paths import PathRequest
from conch_gateway.speech.endpoints import SPEECH_PATHS
from conch_kit.errors import Unavailable
from testkit.gateway.fakes import ENGINE, gateway, route, snapshot

MESSAGES = ("/v1/messages", "/v1/messages/count_tokens")
POSTS = {
    *PATHS,
    *ENCODER_PATHS,
    *SPEECH_PATHS,
    *TOKENIZE_PATHS,
    *DETOKENIZE_PATHS,
    "/v1/responses",
    *MESSAGES,
    "/invocations",
}

OF_TEXT = {"/v1/completions", "/v1/classify", "/classify", *DETOKENIZE_PATHS}
"""What takes neither files nor pictures."""


async def described(**settings):
    return orjson.loads((await gateway(**settings).client.get("/openapi.json")).body)


def references(part):
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from references(inner)


async def test_the_openapi_document_describes_every_endpoint_and_names_no_model():
    document = await described()
    assert {path for path, methods in document["paths"].items() if "post" in methods} == {
        *POSTS,
        "/v1/responses/{response_id}/cancel",
        "/conch/v1/models/{name}/wake",
    }
    assert {"/v1/models", "/v1/models/{name}", "/health", "/health/ready", "/ping", "/version", "/load"} <= document[
        "paths"
    ].keys()
    assert b"tiny-chat" not in orjson.dumps(document)


async def test_every_operation_of_the_openapi_document_is_served():
    client = gateway().client
    for path, methods in (await described())["paths"].items():
        for method in methods:
            answer = await client.call(method.upper(), re.sub(r"\{\w+\}", "x", path))
            assert answer.status != 405, f"{method} {path}"
            assert answer.status < 400 or answer.error["message"] != "Nothing is served under this path.", path


async def test_every_reference_in_the_openapi_document_leads_somewhere():
    document = await described()
    found = set(references(document))
    assert len(found) > 50
    for reference in found:
        _, section, kind, name = reference.split("/")
        assert name in document[section][kind]


async def test_every_operation_of_the_openapi_document_says_how_it_fails_and_streams():
    document = await described()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            responses = operation["responses"]
            assert ("422" in responses) == (path in POSTS - OF_TEXT)
            assert all(
                response["headers"].keys() >= {"x-request-id", "openai-processing-ms", "openai-version"}
                for response in responses.values()
            )
            if path in POSTS:
                away = "529" if path in MESSAGES else "503"
                assert responses.keys() >= {"200", "400", "404", "408", "413", "415", "429", "500", "502", away, "504"}
            streamed = "text/event-stream" in responses.get("200", {}).get("content", {})
            assert streamed == (path in (*PATHS, *SPEECH_PATHS, "/v1/messages", "/v1/responses", "/invocations"))


@pytest.mark.parametrize(
    "name", ["ChatCompletionRequest", "CompletionRequest", "ResponsesRequest", "MessagesRequest", "ChatMessage"]
)
async def test_the_openapi_document_says_what_each_field_of_a_request_means(name):
    fields = (await described())["components"]["schemas"][name]["properties"]
    assert [field for field, told in fields.items() if not told.get("description")] == []


async def test_the_bounds_of_integers_in_the_openapi_document_are_those_that_hold():
    document = await described()
    for name in ("ChatCompletionRequest", "CompletionRequest", "ResponsesRequest", "TranscriptionRequest"):
        (seed,) = [
            kind
            for kind in document["components"]["schemas"][name]["properties"]["seed"]["anyOf"]
            if kind["type"] == "integer"
        ]
        assert (seed["minimum"], seed["maximum"]) == (-(2**63), 2**63 - 1)
        assert not {type(seed["minimum"]), type(seed["maximum"])} & {float}


async def test_the_openapi_document_asks_for_a_key_where_one_is_needed(tmp_path):
    (tmp_path / "keys").write_text("sk-a\n")
    without, keyed = await described(), await described(api_keys_file=tmp_path / "keys")
    for path, methods in keyed["paths"].items():
        for method, operation in methods.items():
            assert ("security" in operation) == ("401" in operation["responses"]) == (path not in OPEN_PATHS)
            assert "401" not in without["paths"][path][method]["responses"]


@pytest.mark.parametrize(
    ("fields", "takes"),
    [
        ({}, ["text"]),
        ({"pictures": PictureProfile()}, ["text", "image"]),
        ({"kind": ModelKind.TRANSCRIPTION}, ["audio"]),
    ],
)
async def test_a_model_tells_what_it_takes(fields, takes):
    card = orjson.loads((await gateway(known=snapshot(route(**fields))).client.get("/v1/models/tiny-chat")).body)
    assert card["input_modalities"] == takes


@pytest.mark.parametrize(
    ("query", "names", "more"),
    [
        ("", "abcd", False),
        ("limit=2", "ab", True),
        ("limit=1000", "abcd", False),
        ("limit=2&after_id=b", "cd", False),
        ("limit=1&after_id=b", "c", True),
        ("after_id=d", "", False),
        ("limit=2&before_id=d", "bc", True),
        ("limit=3&before_id=d", "abc", False),
        ("before_id=a", "", False),
    ],
)
async def test_models_come_in_pages_where_anthropics_clients_ask_for_them(query, names, more):
    known = snapshot(*(route(model_id=f"ns/{name}", served_names=(name,)) for name in "abcd"))
    listed = orjson.loads((await gateway(known=known).client.get("/v1/models", query=query.encode())).body)
    assert ("".join(model["id"] for model in listed["data"]), listed["has_more"]) == (names, more)
    assert (listed["first_id"], listed["last_id"]) == ((names[0], names[-1]) if names else (None, None))


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=all", "limit"),
        ("after_id=x", "after_id"),
        ("before_id=", "before_id"),
        ("before_id=tiny-chat&after_id=tiny-chat", "before_id"),
    ],
)
async def test_a_page_of_models_that_there_is_not_is_refused(query, param):
    answer = await gateway().client.get("/v1/models", query=query.encode())
    assert (answer.status, orjson.loads(answer.body)["error"]["param"]) == (400, param)


async def test_the_openapi_document_can_be_switched_off():
    assert (await gateway(openapi=False).client.get("/openapi.json")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/health", 200, None),
        ("GET", "/health/ready", 200, None),
        ("GET", "/ping", 200, None),
        ("GET", "/version", 200, None),
        ("GET", "/load", 200, None),
        ("GET", "/v1/models", 200, None),
        ("POST", "/v1/models", 405, b"GET"),
        ("DELETE", "/v1/completions", 405, b"POST"),
        ("GET", "/nowhere", 404, None),
        ("POST", "/v1/audio/speech", 404, None),
        ("OPTIONS", "/v1/models", 204, None),
    ],
)
async def test_every_answer_has_a_request_id_and_errors_their_shape(method, path, status, allow):
    answer = await gateway().client.call(method, path)
    assert (answer.status, answer.headers.get(b"allow")) == (status, allow)
    assert answer.headers[b"x-request-id"]
    assert answer.headers[b"openai-processing-ms"].isdigit()
    assert answer.headers[b"openai-version"] == b"2020-10-01"
    if status >= 400:
        assert set(answer.error) == {"message", "type", "param", "code"}


async def test_the_model_that_answers_without_a_name_is_listed_first():
    encoder = route(model_id="ns/a", served_names=("a",), kind=ModelKind.EMBEDDING)
    other = route(model_id="ns/b", served_names=("b",))
    default = route(model_id="ns/c", served_names=("c", "alias"), default=True)
    for known, names in (((encoder, other, default), ["alias", "c", "b", "a"]), ((encoder, other), ["b", "a"])):
        answer = await gateway(known=snapshot(*known)).client.get("/v1/models")
        assert [model["id"] for model in orjson.loads(answer.body)["data"]] == names


async def test_models_whose_services_have_never_been_there_are_not_listed():
    encoder = route(model_id="local/enc", served_names=("enc",), kind=ModelKind.RERANK)
    client = gateway(known=snapshot(route(), encoder), reachable=lambda kind: kind is ModelKind.LLM).client
    assert [model["id"] for model in orjson.loads((await client.get("/v1/models")).body)["data"]] == ["tiny-chat"]
    assert (await client.get("/v1/models/tiny-chat")).status == 200
    refused = await client.get("/v1/models/enc")
    assert (refused.status, refused.error["code"], refused.headers[b"retry-after"]) == (503, "model_not_ready", b"1")


@pytest.mark.parametrize(
    ("fields", "engines", "state", "status"),
    [
        ({}, [Engine(grpc=ENGINE)], "ready", 200),
        ({"wakes": True}, [Engine(grpc=ENGINE)], "ready", 200),
        ({}, [], "not_ready", 503),
        ({"engines_wanted": False}, [], "not_ready", 503),
        ({"wakes": True, "start_failed": "no GPU is free"}, [], "not_ready", 503),
        ({"wakes": True}, [], "resting", None),
    ],
)
async def test_a_model_without_an_engine_is_listed_and_says_what_a_request_would_find(fields, engines, state, status):
    client = gateway(known=snapshot(route(**fields), engines=engines)).client
    (listed,) = orjson.loads((await client.get("/v1/models")).body)["data"]
    assert orjson.loads((await client.get("/v1/models/tiny-chat")).body) == listed
    assert listed["state"] == state
    if status is not None:
        answer = await client.post("/v1/completions", {"model": "tiny-chat", "prompt": "a", "max_tokens": 1})
        assert answer.status == status


@pytest.mark.parametrize("method_path", [("GET", "/v1/models"), ("GET", "/v1/models/{name:path}")])
async def test_models_are_not_told_before_they_are_known(method_path):
    endpoint = model_endpoints(lambda: None, lambda kind: True, owned_by="conch")[method_path]
    with pytest.raises(Unavailable) as refused:
        await endpoint(PathRequest(exchange=None, parts={"name": "tiny-chat"}, query=""))
    assert (refused.value.code, refused.value.retry_after_s) == ("model_not_ready", 1)
