"""What the public port makes of HTTP that is odd, hostile or slow; one real process, raw sockets."""

import asyncio
import http.client
import json
from contextlib import closing

import pytest
import pytest_asyncio

from conch_contracts.records import Pool
from testkit.gateway.process import FRAMES, USAGE, gateway_process
from testkit.http import raw_http
from testkit.http.raw_http import chunked, first_answer, status_of
from testkit.waiting import eventually

CHAT = b'{"model":"tiny-chat","messages":[{"role":"user","content":"hi"}]}'
STREAM = CHAT[:-1] + b',"stream":true}'
PATH = "/v1/chat/completions"
NOTICED_S = 20
"""Less than the time-outs that would end a request that nobody hears any more."""


def request(body=CHAT, *lines, path=PATH, host="host: x"):
    return raw_http.request(path, body, *lines, host=host)


RAW = {
    "announced body of 1 GB": (request(b"").replace(b"length: 0", b"length: 1000000000"), 413),
    "negative length": (request().replace(b"length: ", b"length: -"), 400),
    "two lengths": (request(CHAT, "content-length: 5"), 400),
    "length and chunked": (request(CHAT, "transfer-encoding: chunked"), 400),
    "bare line feeds": (request().replace(b"\r\n", b"\n"), 400),
    "folded header": (request(CHAT, "x-a: b", " c"), 400),
    "no host": (request(host=None), 400),
    "two hosts": (request(CHAT, "host: y"), 400),
    "absolute form": (b"GET http://evil/health HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "5000 headers": (request(CHAT, *(f"x-{n}: 1" for n in range(5000))), 431),
    "1 MB header": (request(CHAT, "x-a: " + "b" * 1_000_000), 431),
    "TRACE": (b"TRACE /nothing HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "CONNECT": (b"CONNECT evil:443 HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "h2c": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "gzip": (request(CHAT, "content-encoding: gzip"), 415),
    "text": (request(CHAT, "content-type: text/plain"), 415),
    "utf-16": (request(CHAT, "content-type: application/json; charset=utf-16"), 415),
    "empty": (request(b""), 400),
    "null": (request(b"null"), 400),
    "deep": (request(b"[" * 100_000), 400),
    "duplicate": (request(b'{"model":"a",' + CHAT[1:]), 400),
    "lone surrogate": (request(CHAT.replace(b"hi", b"\\ud800")), 400),
    "dots in the path": (request(path="/v1/%2e%2e/admin"), 404),
    "double slash": (request(path="//v1/chat/completions"), 404),
    "trailing slash": (request(path="/v1/chat/completions/"), 404),
    "wrong case": (request(path="/V1/chat/completions"), 404),
    "metrics": (b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "docs": (b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "wrong method": (b"GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n", 405),
}


async def scrape(gateway):
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.admin_port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory):
    async with gateway_process(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.mark.asyncio(loop_scope="module")
class TestOneProcess:
    @pytest.mark.parametrize("name", RAW)
    async def test_odd_http_gets_its_error_in_the_one_shape_and_the_next_request_works(self, shared, name):
        data, expected = RAW[name]
        answer = await first_answer(shared.port, data)
        assert status_of(answer) == expected, answer[:200]
        head, _, body = answer.partition(b"\r\n\r\n")
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
        assert b"x-request-id: " in head
        assert (b"allow: POST" in head) == (expected == 405)
        assert (await shared.post(PATH, CHAT))[0] == 200

    async def test_a_complete_and_a_streamed_answer_arrive(self, shared):
        assert (await shared.post(PATH, CHAT))[2] == b'{"id":"x"}'
        status, headers, body = await shared.post(PATH, STREAM, "x-request-id: abc")
        assert (status, headers["x-request-id"]) == (200, "abc")
        assert [frame in body for frame in FRAMES] == [True] * 3
        assert b"usage" not in body

    @pytest.mark.parametrize("name", ["Upgrade", "upgrade"])
    async def test_an_offer_of_another_protocol_is_passed_over(self, shared, name):
        offer = ("Connection: Upgrade, HTTP2-Settings", f"{name}: h2c", "HTTP2-Settings: AAMAAABkAAQ", "x-a: b")
        answer = await first_answer(shared.port, request(CHAT, *offer))
        assert (status_of(answer), answer.partition(b"\r\n\r\n")[2]) == (200, b'{"id":"x"}')

    async def test_models_are_listed_and_described(self, shared):
        _, _, body = await shared.post("/v1/models", b"", method="GET")
        (model,) = json.loads(body)["data"]
        assert (model["id"], model["owned_by"], model["max_model_len"]) == ("tiny-chat", "conch", 64)
        assert len(model["permission"][0]) == 12
        assert json.loads((await shared.post("/v1/models/tiny-chat", b"", method="GET"))[2]) == model
        missing = await shared.post("/v1/models/a/b:c", b"", method="GET")
        assert (missing[0], json.loads(missing[2])["error"]["code"]) == (404, "model_not_found")

    @pytest.mark.parametrize("name", ["x", "../../etc/passwd", "{{7*7}}", "*", "tiny-chat\\n", "é" * 5000])
    async def test_an_unknown_model_is_a_404(self, shared, name):
        body = json.dumps({"model": name, "prompt": "x"}).encode()
        status, _, answer = await shared.post("/v1/completions", body)
        assert (status, json.loads(answer)["error"]["code"]) == (404, "model_not_found")
        assert len(answer) < 1024

    async def test_pipelined_requests_are_answered_in_order(self, shared):
        answer = await shared.raw(request() + request(CHAT, "connection: close"))
        assert answer.count(b'{"id":"x"}') == 2

    async def test_to_a_client_of_http_1_0_the_end_of_the_connection_is_the_end_of_a_stream(self, shared):
        answer = await shared.raw(request(STREAM).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert status_of(answer) == 200
        assert b"transfer-encoding" not in head.lower()
        assert body == b"".join(FRAMES)

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    async def test_a_client_of_http_1_0_gets_whole_answers_too(self, shared, method):
        asked = b"%b /v1/models HTTP/1.0\r\n\r\n" % method.encode()
        head, _, body = (await shared.raw(asked)).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert (b"tiny-chat" in body) == (method == "GET")

    @pytest.mark.parametrize("path", ["/v1/models", "/health"])
    async def test_head_is_answered_as_get_is_without_the_body(self, shared, path):
        asked = f"HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() + request(CHAT, "connection: close")
        head, _, rest = (await shared.raw(asked)).partition(b"\r\n\r\n")
        assert status_of(head) == 200
        assert rest.startswith(b"HTTP/1.1 200 OK\r\n")

    async def test_an_abort_at_any_byte_harms_nobody(self, shared):
        data = request(STREAM)
        for cut in range(0, len(data), 16):
            await shared.raw(data[:cut], wait_s=0, half_close=True)
        assert (await shared.post(PATH, CHAT))[0] == 200

    async def test_a_large_body_is_served_and_one_above_the_cap_is_not(self, shared):
        large = CHAT.replace(b"hi", b"x" * 2_000_000)
        assert (await shared.post(PATH, large))[0] == 200
        assert status_of(await shared.raw(chunked(PATH, b"x" * 13_000_000))) == 413

    async def test_a_client_that_writes_its_whole_body_before_it_reads_sees_why_it_was_refused(self, shared):
        def send(size):
            client = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=30)
            with closing(client):
                client.request("POST", PATH, b"x" * size, {"content-type": "application/json"})
                answer = client.getresponse()
                return answer.status, json.loads(answer.read())["error"]["code"]

        assert await asyncio.to_thread(send, 30_000_000) == (413, "request_too_large")

    async def test_prompts_stay_out_of_log_and_metrics(self, shared):
        await shared.post(PATH, CHAT.replace(b"hi", b"CANARY"))
        await shared.post(PATH, CHAT.replace(b"hi", b"CANARY")[:-2])
        await shared.post("/v1/models?key=CANARY", b"", "x-request-id: last-of-three", method="GET")
        await eventually(lambda: b"last-of-three" in shared.log.read_bytes(), "the line of the last")
        metrics = await scrape(shared)
        assert b"conch_gateway_requests_total" in metrics
        assert b"CANARY" not in metrics + shared.log.read_bytes()

    async def test_the_metrics_tell_what_the_gateway_knows_of_the_registry(self, shared):
        assert (await shared.post(PATH, CHAT))[0] == 200
        metrics = await scrape(shared)
        assert b"conch_registry_available 1.0" in metrics
        assert b"conch_registry_routes 1.0" in metrics

    @pytest.mark.parametrize("sent", [request(STREAM), request(CHAT) + request(CHAT)], ids=["one", "two at once"])
    async def test_a_client_that_hangs_up_is_noticed_by_the_worker_at_once(self, shared, sent):
        begun, noticed = asyncio.Event(), asyncio.Event()
        script = shared.backend.script

        async def endless(call):
            if "prepare" in call.path:
                return await script(call)
            await call.begin()
            await call.chunk(FRAMES[0])
            begun.set()
            await call.closed()
            noticed.set()
            return None

        shared.backend.script = endless
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", shared.port)
            writer.write(sent)
            await asyncio.wait_for(begun.wait(), NOTICED_S)
            writer.transport.abort()
            await asyncio.wait_for(noticed.wait(), NOTICED_S)
        finally:
            shared.backend.script = script


async def test_slow_heads_and_bodies_are_cut_off(tmp_path):
    async with gateway_process(tmp_path, header_timeout_s="2", body_timeout_s="2") as gateway:
        slow = (b"POST / HT", b"", request()[:-5])
        answers = await asyncio.gather(*(gateway.raw(data) for data in slow))
        assert [status_of(answer) for answer in answers] == [408] * 3
        assert (await gateway.post(PATH, CHAT))[0] == 200


async def test_a_kept_connection_is_closed_after_its_time(tmp_path):
    async with gateway_process(tmp_path, kept_connection_s="1") as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), NOTICED_S)  # to the end of the connection
        writer.close()
        assert status_of(answer) == 200


async def test_what_is_away_has_the_status_that_anthropics_clients_know(tmp_path):
    asked = b'{"model": "tiny-chat", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}'
    async with gateway_process(tmp_path, pools=(Pool.TOKENIZER,), ready=False) as gateway:
        status, headers, body = await gateway.post("/v1/messages", asked)
        assert (status, json.loads(body)["error"]["type"]) == (529, "overloaded_error")
        assert headers["retry-after"]
        assert json.loads(body)["request_id"] == headers["request-id"]


async def test_keys_guard_everything_but_health_and_follow_their_file(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nann:sk-1\nbob sk-2\nsk-3\n")
    async with gateway_process(tmp_path, api_keys_file=str(keys)) as gateway:
        for key in ("sk-1", "sk-2", "sk-3"):
            assert (await gateway.post(PATH, CHAT, f"authorization: bearer {key}"))[0] == 200
        for line in (
            "",
            "Basic sk-1",
            "Bearer",
            "Bearer  sk-1",
            "Bearer sk-",
            "Bearer sk-1sk-1",
            "Bearer " + "x" * 9999,
        ):
            status, headers, _ = await gateway.post(PATH, CHAT, f"authorization: {line}")
            assert (status, headers["www-authenticate"]) == (401, "bearer")
        twice = ("authorization: Bearer sk-1", "authorization: Bearer x")
        assert (await gateway.post(PATH, CHAT, *twice))[0] == 401
        hops = ("x-forwarded-for: 10.0.0.1", "x-forwarded-for: 10.0.0.2")
        assert (await gateway.post(PATH, CHAT, "authorization: Bearer sk-1", *hops))[0] == 200
        for path in ("/v1/models", "/nowhere", "/openapi.json", "/v1/models?api_key=sk-1"):
            assert (await gateway.post(path, b"", method="GET"))[0] == 401
        for path in ("/health", "/health/ready", "/ping"):
            assert (await gateway.post(path, b"", method="GET"))[0] == 200
        keys.write_text("sk-9\n")
        async with asyncio.timeout(60):
            while (await gateway.post(PATH, CHAT, "authorization: Bearer sk-1"))[0] != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (await gateway.post(PATH, CHAT, "authorization: Bearer sk-9"))[0] == 200


async def test_redis_may_die_and_known_models_go_on(tmp_path):
    async with gateway_process(tmp_path) as gateway:
        gateway.redis.kill()
        for _ in range(5):
            assert (await gateway.post(PATH, CHAT))[0] == 200
            await asyncio.sleep(0.1)


async def test_a_drain_lets_streams_end_and_tells_those_that_cannot(tmp_path):
    async with gateway_process(tmp_path, drain_s="3", drain_delay_s="2") as gateway:
        goes_on, begun = asyncio.Event(), asyncio.Semaphore(0)
        script = gateway.backend.script

        async def two_frames(call):
            if "prepare" in call.path:
                return await script(call)
            await call.begin()
            await call.chunk(FRAMES[0])
            begun.release()
            await (goes_on.wait() if b'"max_tokens":1,' in call.body else call.closed())
            await call.chunk(FRAMES[-1] + USAGE)
            return await call.chunk(b"")

        gateway.backend.script = two_frames
        short = asyncio.create_task(gateway.post(PATH, STREAM[:-1] + b',"max_tokens":1}'))
        long = asyncio.create_task(gateway.post(PATH, STREAM))
        for _ in range(2):
            await asyncio.wait_for(begun.acquire(), 60)
        gateway.process.terminate()
        async with asyncio.timeout(60):
            while (await gateway.post("/health/ready", b"", method="GET"))[0] != 503:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert (await gateway.post("/health", b"", method="GET"))[0] == 200
        goes_on.set()
        assert b"[DONE]" in (await short)[2]
        _, _, cut = await long
        assert b'"code":"server_shutting_down"' in cut
        assert b"[DONE]" not in cut
        assert await asyncio.wait_for(gateway.process.wait(), 60) == 0
    assert b"Traceback" not in gateway.log.read_bytes()
