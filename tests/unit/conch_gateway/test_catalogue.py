"""What FastAPI serves behind the plain callable."""

import orjson
import pytest

from testkit.gateway import gateway


async def test_the_openapi_document_describes_every_endpoint_and_names_no_model():
    answer = await gateway().client.get("/openapi.json")
    document = orjson.loads(answer.body)
    assert {"/v1/chat/completions", "/v1/completions", "/v1/models", "/health"} <= document["paths"].keys()
    assert "ChatCompletionRequest" in document["components"]["schemas"]


async def test_the_openapi_document_can_be_switched_off():
    assert (await gateway(openapi=False).client.get("/openapi.json")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/health", 200, None),
        ("GET", "/health/ready", 200, None),
        ("GET", "/ping", 200, None),
        ("GET", "/version", 200, None),
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
    if status >= 400:
        assert set(answer.error) == {"message", "type", "param", "code"}
