"""One path for every endpoint: which one a body means."""

import io
from typing import Any

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, PREPARE_ROWS_PATH, ModelId, ServedName
from conch_contracts.records import Dialect, ModelKind, Route
from conch_gateway.app.invocations import TARGETS, resolve
from conch_gateway.encoders.endpoints import ENCODER_PATHS
from conch_gateway.generation.handler import PATHS
from conch_gateway.telemetry.access_log import AccessLog
from conch_kit.errors import InvalidRequest, ModelNotFound
from testkit.gateway.fakes import answered, gateway, route, rows, snapshot

HELLO = [{"role": "user", "content": "hi"}]


def of_kind(kind: ModelKind) -> Route:
    name = kind.value.lower()
    dialect = Dialect.TOKENS if kind is ModelKind.LLM else Dialect.ENCODER
    return route(model_id=ModelId(f"local/{name}"), served_names=(ServedName(name),), kind=kind, dialect=dialect)


KNOWN = snapshot(*map(of_kind, ModelKind))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": HELLO}, "/v1/chat/completions"),
        ({"messages": HELLO, "model": "llm"}, "/v1/chat/completions"),
        ({"messages": HELLO, "documents": [{"a": "b"}]}, "/v1/chat/completions"),
        ({"messages": HELLO, "prompt": None}, "/v1/chat/completions"),
        ({"messages": HELLO, "model": "embedding"}, "/v1/embeddings"),
        ({"messages": HELLO, "model": "classify"}, "/v1/classify"),
        ({"prompt": "a"}, "/v1/completions"),
        ({"prompt_token_ids": [1]}, "/v1/completions"),
        ({"input": "a"}, "/v1/embeddings"),
        ({"input": "a", "model": "classify"}, "/v1/classify"),
        ({"query": "a", "documents": ["b"]}, "/v1/rerank"),
        ({"text_1": "a", "text_2": "b"}, "/v1/score"),
        ({"data_1": "a", "data_2": "b"}, "/v1/score"),
        ({"queries": "a", "documents": "b", "model": "embedding"}, "/v1/score"),
        ({"prompt": "a", "model": 5}, "/v1/completions"),
    ],
)
def test_the_fields_and_the_kind_of_the_model_show_what_is_meant(body: dict[str, Any], path: str) -> None:
    assert resolve(orjson.dumps(body), KNOWN).path == path


def test_what_can_be_meant_is_served_for_the_same_kinds_of_models() -> None:
    generating = dict.fromkeys(PATHS, (ModelKind.LLM,))
    encoding = {path: endpoint.kinds for path, endpoint in ENCODER_PATHS.items()}
    assert {one.path: one.kinds for one in TARGETS}.items() <= (generating | encoding).items()


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ({}, InvalidRequest, "'messages', 'prompt', 'query', 'text_1', 'input'"),
        ({"documents": ["a"], "model": "rerank"}, InvalidRequest, "'query'"),
        ({"input": "a", "model": "llm"}, InvalidRequest, "Embedding and Classify would do"),
        ({"query": "a", "model": "nobody"}, ModelNotFound, "nobody"),
    ],
)
def test_what_means_nothing_is_refused(body: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        resolve(orjson.dumps(body), KNOWN)


async def test_a_request_is_served_as_on_its_own_path() -> None:
    log = io.BytesIO()
    scripts = {
        GENERATE_PATH: answered(b'{"id":"chatcmpl-1"}'),
        ENCODE_PATH: answered(b'{"data":[{"object":"embedding","index":0,"embedding":[1.0]}]}'),
        PREPARE_ROWS_PATH: rows(1),
    }
    access_log = AccessLog(log)
    served = gateway(scripts, known=KNOWN, access_log=access_log)
    assert (await served.client.post("/invocations", {"messages": HELLO, "n": 2})).body == b'{"id":"chatcmpl-1"}'
    assert served.upstream.sent(GENERATE_PATH)[0]["n"] == 2
    vectors = orjson.loads((await served.client.post("/invocations", {"input": "a"})).body)
    assert vectors["data"][0]["object"] == "embedding"
    wrong = await served.client.post("/invocations", {"prompt": "a", "n": "x"})
    assert (wrong.status, wrong.error["param"]) == (400, "n")
    access_log.flush()
    lines = [orjson.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["path"], line["model"], line["status"]) for line in lines] == [
        ("/invocations", "llm", 200),
        ("/invocations", "embedding", 200),
        ("/invocations", "llm", 400),
    ]
    counted = served.registry.get_sample_value(
        "conch_gateway_requests_total", {"endpoint": "chat", "model": "llm", "status": "200", "outcome": "ok"}
    )
    assert counted == 1
