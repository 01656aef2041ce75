"""The line of a request, and what the client says about the request in it."""

from io import BytesIO
from typing import Any

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, GENERATE_PATH
from conch_contracts.records import ModelKind
from conch_gateway.telemetry.access_log import AccessLog
from testkit.gateway.fakes import answered, gateway, refused, route, snapshot
from testkit.waiting import eventually

HI = [{"role": "user", "content": "hi"}]


async def line_of(path: str, body: dict[str, Any], **known: Any) -> dict[str, Any]:
    """Return the only line of the log when this is asked."""
    log = BytesIO()
    access_log = AccessLog(log, wall_clock=lambda: 1795392742.715)
    await gateway(known.pop("scripts", None), access_log=access_log, **known).client.post(path, body)
    access_log.flush()
    line: dict[str, Any] = orjson.loads(log.getvalue())
    return line


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HI}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi", "store": False}),
    ],
)
async def test_the_line_names_the_user_and_the_metadata(path: str, body: dict[str, Any]) -> None:
    line = await line_of(path, {**body, "user": "u" * 200, "metadata": {"team": "blue"}})
    assert (line["user"], line["metadata"]) == ("u" * 128, {"team": "blue"})
    assert "hi" not in line.values()
    assert line["time"] == "2026-11-23T00:12:22.715+00:00"


async def test_the_line_names_the_user_of_an_embedding() -> None:
    embedding = snapshot(route(kind=ModelKind.EMBEDDING))
    scripts = {ENCODE_PATH: answered(b'{"data":[]}')}
    assert (await line_of("/v1/embeddings", {"input": "hi", "user": "u"}, scripts=scripts, known=embedding))[
        "user"
    ] == "u"


@pytest.mark.parametrize(
    ("fields", "known", "code", "error"),
    [
        ({}, {"known": snapshot(route(), engines=())}, "model_not_ready", "No engine of this model is ready."),
        ({"temperature": "hot"}, {}, "invalid_value", None),
    ],
)
async def test_the_line_has_the_code_of_an_error_and_its_words_unless_they_may_quote_the_request(
    fields: dict[str, Any], known: dict[str, Any], code: str, error: str | None
) -> None:
    line = await line_of("/v1/chat/completions", {"messages": HI, **fields}, **known)
    assert (line["code"], line.get("error")) == (code, error)


async def test_what_a_client_or_a_worker_makes_long_is_cut_in_the_line() -> None:
    assert (await line_of("/" + "x" * 1000, {}))["path"] == "/" + "x" * 127
    scripts = {GENERATE_PATH: lambda _: refused(502, "x" * 1000)}
    assert (await line_of("/v1/chat/completions", {"messages": HI}, scripts=scripts))["error"] == "x" * 256


async def test_much_metadata_stays_out_of_the_line() -> None:
    line = await line_of("/v1/chat/completions", {"messages": HI, "metadata": dict.fromkeys("abc", "x" * 500)})
    assert line["metadata"] is None
    assert "user" not in line


async def test_no_metric_names_the_user() -> None:
    served = gateway()
    await served.client.post("/v1/chat/completions", {"messages": HI, "user": "u-17", "metadata": {"team": "blue"}})
    said = {
        value for family in served.registry.collect() for sample in family.samples for value in sample.labels.values()
    }
    assert said
    assert not said & {"u-17", "team", "blue"}


async def test_the_line_has_metadata_with_numbers_of_any_size() -> None:
    line = await line_of("/v1/chat/completions", {"messages": HI, "metadata": {"min_tokens": 2**70}})
    assert line["status"] == 400


async def test_lines_are_written_together_after_a_moment() -> None:
    log = BytesIO()
    served = gateway(access_log=AccessLog(log))
    for _ in range(3):
        await served.client.post("/v1/chat/completions", {"messages": HI})
    assert log.getvalue() == b""
    await eventually(lambda: log.getvalue().count(b"\n") == 3, "the lines")
    await served.client.post("/v1/chat/completions", {"messages": HI})
    await eventually(lambda: log.getvalue().count(b"\n") == 4, "the next line")


async def test_the_line_of_a_fault_is_written_at_once_with_those_before_it() -> None:
    log = BytesIO()
    scripts = {GENERATE_PATH: lambda post: refused(502, "broken")}
    served = gateway(scripts, access_log=AccessLog(log))
    await served.client.post("/v1/chat/completions", {"messages": "nothing"})
    await served.client.post("/v1/chat/completions", {"messages": HI})
    assert [orjson.loads(line)["status"] for line in log.getvalue().splitlines()] == [400, 502]
