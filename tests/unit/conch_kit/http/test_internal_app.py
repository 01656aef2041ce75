import asyncio
import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from conch_kit.errors import Unavailable
from conch_kit.http.asgi import ASGIApp, ClientGone, Receive, Scope, Send, json_response
from conch_kit.http.internal_app import internal_app
from conch_kit.logs import request_id_var
from conch_kit.tracing import OtlpTracer
from testkit.http.asgi import call

TOKEN = ("x-conch-internal-token", "secret")


async def _work(scope: Scope, receive: Receive, send: Send) -> None:
    await json_response(send, 200, json.dumps({"request_id": request_id_var.get()}).encode())


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    raise Unavailable("No engine is ready.", retryable=True)


async def _crash(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("a secret of the inside")


async def _crash_late(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ValueError("late")


async def _refuse_late(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise Unavailable("late")


async def _gone(scope: Scope, receive: Receive, send: Send) -> None:
    raise ClientGone


HANDLERS = {
    "/work": _work,
    "/refuse": _refuse,
    "/crash": _crash,
    "/late": _crash_late,
    "/refuse-late": _refuse_late,
    "/gone": _gone,
}


@pytest.fixture
def app() -> ASGIApp:
    return internal_app(HANDLERS, SecretStr("secret"))


async def test_a_request_runs_under_its_own_id(app: ASGIApp) -> None:
    answer = await call(app, "/work", headers=[TOKEN, ("x-request-id", "req-7")])
    assert (answer.status, json.loads(answer.body)) == (200, {"request_id": "req-7"})
    answer = await call(app, "/work", headers=[TOKEN])
    assert json.loads(answer.body) == {"request_id": None}


async def test_a_request_is_a_span_of_its_callers_trace_and_what_it_does_lies_below() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = OtlpTracer(provider)

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        with spans.span("inside"):
            await json_response(send, 200, b"{}")

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await call(internal_app({"/work": work}, None, spans), "/work", headers=[("traceparent", trace)])
    inside, request = exporter.get_finished_spans()
    assert (inside.name, request.name) == ("inside", "/work")
    assert inside.parent is not None
    assert request.parent is not None
    assert (inside.parent.span_id, request.parent.span_id) == (request.context.span_id, 0xB7AD6B7169203331)


@pytest.mark.parametrize(
    ("path", "method", "token", "status", "code"),
    [
        ("/work", "POST", None, 403, "permission_denied"),
        ("/work", "POST", "secre", 403, "permission_denied"),
        ("/work", "POST", "secret2", 403, "permission_denied"),
        ("/nothing", "POST", None, 403, "permission_denied"),
        ("/nothing", "POST", "secret", 404, "not_found"),
        ("/work", "GET", "secret", 405, "method_not_allowed"),
        ("/refuse", "POST", "secret", 503, "overloaded"),
        ("/crash", "POST", "secret", 500, None),
    ],
)
async def test_every_failure_is_an_error_body_with_its_status(
    app: ASGIApp, path: str, method: str, token: str | None, status: int, code: str | None
) -> None:
    headers = [("x-request-id", "req-7")] + ([] if token is None else [("x-conch-internal-token", token)])
    answer = await call(app, path, method=method, headers=headers)
    assert answer.status == status
    assert json.loads(answer.body)["error"]["code"] == code
    assert set(json.loads(answer.body)["error"]) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"] == "req-7"
    assert answer.complete


async def test_an_error_that_another_may_retry_says_so(app: ASGIApp) -> None:
    answer = await call(app, "/refuse", headers=[TOKEN])
    assert answer.headers["x-conch-retryable"] == "true"
    assert answer.headers["retry-after"] == "1"


async def test_a_crash_tells_the_caller_nothing_of_the_inside(app: ASGIApp, caplog: pytest.LogCaptureFixture) -> None:
    answer = await call(app, "/crash", headers=[TOKEN])
    assert b"secret of the inside" not in answer.body
    assert "a secret of the inside" in caplog.text


@pytest.mark.parametrize(("path", "error"), [("/late", ValueError), ("/refuse-late", Unavailable)])
async def test_after_the_first_byte_an_error_is_left_to_the_server(
    app: ASGIApp, path: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match="late"):
        await call(app, path, headers=[TOKEN])


@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_the_end_of_a_drain_cuts_may_be_sent_to_another_process(*, begun: bool) -> None:
    waits = asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        waits.set()
        await asyncio.Event().wait()

    asking = asyncio.create_task(call(internal_app({"/wait": wait}, None), "/wait"))
    await asyncio.wait_for(waits.wait(), 30)
    asking.cancel()
    if begun:
        with pytest.raises(asyncio.CancelledError):
            await asking
        return
    answer = await asking
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "server_shutting_down")
    assert answer.headers["x-conch-retryable"] == "true"


async def test_nobody_answers_a_caller_who_hung_up(app: ASGIApp) -> None:
    assert (await call(app, "/gone", headers=[TOKEN])).status == 0


async def test_without_a_token_the_ports_are_open() -> None:
    assert (await call(internal_app(HANDLERS, None), "/work")).status == 200
