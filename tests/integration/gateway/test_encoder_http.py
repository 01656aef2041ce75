"""Odd, hostile and slow HTTP against every endpoint that does not generate; one real process, raw sockets.

`test_http.py` is the same for chat. Here each case is a row for each endpoint.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from conch_contracts.records import Dialect, EncoderProfile, ModelKind, Route
from testkit.gateway.fakes import route
from testkit.gateway.process import Process, gateway_process
from testkit.http.raw_http import chunked, first_answer, request, status_of
from testkit.waiting import eventually


def encoder(name: str, kind: ModelKind, **profile: float) -> Route:
    return route(
        model_id=f"local/{name}",
        served_names=(name,),
        kind=kind,
        dialect=Dialect.ENCODER,
        encoder=EncoderProfile.model_validate(profile),
    )


MODELS = (
    encoder("embed", ModelKind.EMBEDDING),
    encoder("rank", ModelKind.RERANK),
    encoder("class", ModelKind.CLASSIFY),
)
GOOD: Mapping[str, bytes] = {
    "/v1/embeddings": b'{"model":"embed","input":"hi"}',
    "/pooling": b'{"model":"embed","input":"hi"}',
    "/v1/rerank": b'{"model":"rank","query":"q","documents":["hi"]}',
    "/score": b'{"model":"rank","text_1":"a","text_2":"hi"}',
    "/classify": b'{"model":"class","input":"hi"}',
    "/tokenize": b'{"model":"embed","prompt":"hi"}',
    "/detokenize": b'{"model":"embed","tokens":[1]}',
}
NOTICED_S = 20
"""Less than the time-outs that would end a request that nobody hears any more."""
SLOW = 30
"""Clients for each endpoint that never get to the end of what they say."""
TEXTS = tuple(path for path in GOOD if path != "/detokenize")

Make = Callable[[str, bytes], bytes]


def body(change: Callable[[bytes], bytes]) -> Make:
    return lambda path, good: request(path, change(good))


def instead(raw: bytes) -> Make:
    return body(lambda good: raw)


def field(more: bytes) -> Make:
    """Put a field in front of the others."""
    return body(lambda good: b"{" + more + b"," + good[1:])


def line(text: str) -> Make:
    return lambda path, good: request(path, good, text)


def at(change: Callable[[str], str]) -> Make:
    return lambda path, good: request(change(path), good)


def by(method: str) -> Make:
    return lambda path, good: request(path, b"", method=method)


CASES: Mapping[str, tuple[Make, int]] = {
    "announced body of 1 GB": (lambda path, _: request(path, b"").replace(b"length: 0", b"length: 1000000000"), 413),
    "chunked body above the cap": (lambda path, good: chunked(path, good + b" " * 11_000_000), 413),
    "11 MB of numbers": (instead(b'{"input":[' + b"1," * 5_500_000 + b"1]}"), 413),
    "1 MB header": (line("x-a: " + "b" * 1_000_000), 431),
    "5000 headers": (lambda path, good: request(path, good, *(f"x-{n}: 1" for n in range(5000))), 431),
    "length and chunked": (line("transfer-encoding: chunked"), 400),
    "two lengths": (line("content-length: 5"), 400),
    "negative length": (lambda path, good: request(path, good).replace(b"length: ", b"length: -"), 400),
    "bare line feeds": (lambda path, good: request(path, good).replace(b"\r\n", b"\n"), 400),
    "folded header": (lambda path, good: request(path, good, "x-a: b", " c"), 400),
    "no host": (lambda path, good: request(path, good, host=None), 400),
    "absolute form": (at(lambda path: f"http://evil{path}"), 400),
    "dots in the path": (at(lambda path: f"/v1/%2e%2e{path}"), 404),
    "double slash": (at(lambda path: f"/{path}"), 404),
    "matrix parameter": (at(lambda path: f"{path};x"), 404),
    "trailing slash": (at(lambda path: f"{path}/"), 404),
    "wrong case": (at(str.upper), 404),
    "NUL in a header": (line("x-request-id: a\0b"), 400),
    "request id that is none": (line('x-request-id: a b"'), 200),
    "spoofed headers": (
        lambda path, good: request(
            path, good, "x-forwarded-for: 1.1.1.1", "x-original-url: /health", "x-http-method-override: DELETE"
        ),
        200,
    ),
    "gzip": (line("content-encoding: gzip"), 415),
    "brotli": (line("content-encoding: br"), 415),
    "zstd": (line("content-encoding: zstd"), 415),
    "text": (line("content-type: text/plain"), 415),
    "utf-16": (line("content-type: application/json; charset=utf-16"), 415),
    "empty": (instead(b""), 400),
    "null": (instead(b"null"), 400),
    "list": (instead(b"[]"), 400),
    "string": (instead(b'"x"'), 400),
    "number": (instead(b"1"), 400),
    "truncated": (body(lambda good: good[:-1]), 400),
    "trailing garbage": (body(lambda good: good + b" x"), 400),
    "comment": (body(lambda good: good[:-1] + b"/* c */}"), 400),
    "single quotes": (body(lambda good: good.replace(b'"', b"'")), 400),
    "invalid UTF-8": (field(b'"user":"\xff"'), 400),
    "byte order mark": (body(lambda good: b"\xef\xbb\xbf" + good), 200),
    "100,000 brackets": (instead(b"[" * 100_000), 400),
    "990 levels": (field(b'"x":' + b"[" * 990 + b"]" * 990), 400),
    "the model twice": (field(b'"model":"other"'), 400),
    "5000 digits": (field(b'"x":' + b"1" * 5000), 400),
    "NaN": (field(b'"x":NaN'), 400),
    "infinity": (field(b'"x":-Infinity'), 400),
    "1e999": (body(lambda good: good.replace(b'"model":', b'"model":1e999,"x":')), 400),
    "lone surrogate": (field(b'"user":"\\ud800"'), 400),
    "100,000 unknown keys": (field(b",".join(b'"k%d":1' % number for number in range(100_000))), 400),
    "a key of 1 MB": (field(b'"' + b"k" * 1_000_000 + b'":1'), 400),
    "a name that is a number": (body(lambda good: good.replace(b'"model":', b'"model":5,"x":')), 400),
    "a name with NUL": (body(lambda good: good.replace(b'"model":"', b'"model":"\\u0000')), 404),
    "GET": (by("GET"), 405),
    "PUT": (by("PUT"), 405),
    "DELETE": (by("DELETE"), 405),
    "TRACE": (by("TRACE"), 405),
    "CONNECT": (by("CONNECT"), 405),
    "CONNECT to somewhere else": (lambda path, good: request("evil:443", good, method="CONNECT"), 400),
    "an offer of h2c": (
        lambda path, good: request(
            path, good, "connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQ"
        ),
        200,
    ),
    "HTTP/0.9": (lambda path, _: f"POST {path}\r\n\r\n".encode(), 400),
}
STRICT: Mapping[str, tuple[bytes, ...]] = {
    "/v1/embeddings": (b'"input":5', b'"input":true', b'"input":[1.5]', b'"dimensions":"5"', b'"normalize":"yes"'),
    "/pooling": (b'"input":{}', b'"normalize":1', b'"encoding_format":"x"', b'"add_special_tokens":"no"'),
    "/v1/rerank": (b'"query":5', b'"documents":"a"', b'"top_n":1.5', b'"top_n":true', b'"return_documents":"yes"'),
    "/score": (b'"text_1":5', b'"text_2":[1]', b'"activation":"x"', b'"truncate_prompt_tokens":true'),
    "/classify": (b'"input":5', b'"input":[["a"]]', b'"activation":1', b'"user":5'),
    "/tokenize": (b'"prompt":5', b'"add_special_tokens":"true"', b'"return_token_strs":1'),
    "/detokenize": (b'"tokens":"1"', b'"tokens":[true]', b'"tokens":["1"]', b'"tokens":[1.5]', b'"tokens":[-1]'),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Process]:
    async with gateway_process(tmp_path_factory.mktemp("gateway"), *MODELS) as process:
        yield process


@pytest.mark.asyncio(loop_scope="module")
class TestOneProcess:
    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize("path", GOOD)
    async def test_odd_http_gets_its_answer_and_the_next_request_works(
        self, shared: Process, path: str, name: str
    ) -> None:
        make, expected = CASES[name]
        answer = await first_answer(shared.port, make(path, GOOD[path]))
        assert status_of(answer) == expected, answer[:300]
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert b"x-request-id: " in head
        if expected != 200:
            assert set(json.loads(rest)["error"]) == {"message", "type", "param", "code"}
            assert len(rest) < 1024
        assert (b"allow: POST" in head) == (expected == 405)
        assert status_of(await first_answer(shared.port, request(path, GOOD[path]))) == 200

    @pytest.mark.parametrize("path", STRICT)
    async def test_values_of_another_type_are_not_bent_into_shape(self, shared: Process, path: str) -> None:
        for wrong in STRICT[path]:
            name = json.loads(b"{" + wrong + b"}").popitem()[0]
            good = {key: value for key, value in json.loads(GOOD[path]).items() if key != name}
            answer = await first_answer(shared.port, request(path, b"{" + wrong + b"," + json.dumps(good).encode()[1:]))
            assert status_of(answer) == 400, (wrong, answer[:300])
            assert str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["param"]).split(".")[0] == name

    @pytest.mark.parametrize("path", TEXTS)
    async def test_any_text_is_served_and_none_is_logged(self, shared: Process, path: str) -> None:
        strange = b"CANARY \\u0000 \\u001b[31m \\u202e \\u0085 \\n"
        answer = await first_answer(shared.port, request(path, GOOD[path].replace(b"hi", strange)))
        assert status_of(answer) == 200
        body, name = GOOD[path].replace(b"hi", b"CANARY" * 900_000)[:-2], f"large{path.replace('/', '.')}"
        large = await first_answer(shared.port, request(path, body, f"x-request-id: {name}"))
        assert status_of(large) == 400
        await eventually(lambda: name.encode() in shared.log.read_bytes(), "its line")
        assert b"CANARY" not in large + shared.log.read_bytes()

    @pytest.mark.parametrize("path", GOOD)
    async def test_a_wrong_field_of_5_mb_is_not_echoed(self, shared: Process, path: str) -> None:
        wrong = b'{"model":["' + b"x" * 5_000_000 + b'"],' + GOOD[path].partition(b",")[2]
        answer = await first_answer(shared.port, request(path, wrong))
        assert status_of(answer) == 400
        assert len(answer) < 1024

    @pytest.mark.parametrize("path", GOOD)
    async def test_pipelined_requests_are_answered_in_order(self, shared: Process, path: str) -> None:
        both = request(path, GOOD[path], "x-request-id: one") + request(
            path, GOOD[path], "x-request-id: two", "connection: close"
        )
        answer = await shared.raw(both)
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.index(b"x-request-id: one") < answer.index(b"x-request-id: two")

    @pytest.mark.parametrize("path", GOOD)
    async def test_an_abort_at_any_byte_harms_nobody(self, shared: Process, path: str) -> None:
        data = request(path, GOOD[path])
        for cut in range(0, len(data), 8):
            await shared.raw(data[:cut], wait_s=0, half_close=True)
            await shared.raw(data[:cut], wait_s=0)
        assert status_of(await first_answer(shared.port, data)) == 200

    @pytest.mark.parametrize("path", GOOD)
    async def test_a_client_that_hangs_up_is_noticed_at_once(self, shared: Process, path: str) -> None:
        begun, noticed = asyncio.Event(), asyncio.Event()
        script = shared.backend.script

        async def silent(call):  # type: ignore[no-untyped-def]
            begun.set()
            await call.closed()
            noticed.set()

        shared.backend.script = silent
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", shared.port)
            writer.write(request(path, GOOD[path]))
            await asyncio.wait_for(begun.wait(), NOTICED_S)
            writer.transport.abort()
            await asyncio.wait_for(noticed.wait(), NOTICED_S)
        finally:
            shared.backend.script = script


async def test_slow_heads_are_cut_off_while_others_are_served(tmp_path: Path) -> None:
    async with gateway_process(tmp_path, *MODELS, header_timeout_s="3") as gateway:
        heads = [request(path, good, "x-a: b").partition(b"x-a: b")[0] for path, good in GOOD.items()] * SLOW
        slow = [asyncio.create_task(first_answer(gateway.port, head)) for head in heads]
        for path, good in GOOD.items():
            assert status_of(await first_answer(gateway.port, request(path, good))) == 200
        for answer in await asyncio.gather(*slow):
            assert status_of(answer) == 408
            assert b"connection: close" in answer


async def test_slow_bodies_are_cut_off(tmp_path: Path) -> None:
    async with gateway_process(tmp_path, *MODELS, body_timeout_s="2") as gateway:
        slow = (first_answer(gateway.port, request(path, good)[:-5]) for path, good in GOOD.items())
        for answer, (path, good) in zip(await asyncio.gather(*slow), GOOD.items(), strict=True):
            assert status_of(answer) == 408
            assert b"connection: close" in answer
            assert status_of(await first_answer(gateway.port, request(path, good))) == 200


async def test_keys_guard_every_endpoint(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sk-1\n")
    refused = (
        (),
        ("authorization: ",),
        ("authorization: Basic sk-1",),
        ("authorization: Bearer  sk-1",),
        ("authorization: Bearer sk-é",),
        ("authorization: Bearer " + "x" * 10_000,),
        ("authorization: Bearer sk-1", "authorization: Bearer x"),
        ("cookie: authorization=sk-1",),
        ("x-tenant: admin",),
    )
    async with gateway_process(tmp_path, *MODELS, api_keys_file=str(keys)) as gateway:
        for path, good in GOOD.items():
            for lines in refused:
                answer = await first_answer(gateway.port, request(path, good, *lines))
                assert status_of(answer) == 401, (path, lines)
                assert b"www-authenticate: Bearer" in answer
            for odd in (f"{path}?api_key=sk-1", f"/%2e%2e{path}"):
                assert status_of(await first_answer(gateway.port, request(odd, good))) == 401
            for host in ("host: localhost/health#@x", "host: x/openapi.json?x="):
                assert status_of(await first_answer(gateway.port, request(path, good, host=host))) in (400, 401)
            allowed = request(path, good, "authorization: bearer sk-1")
            assert status_of(await first_answer(gateway.port, allowed)) == 200
    assert b"sk-1" not in gateway.log.read_bytes()


async def test_a_redis_that_hangs_costs_the_cache_and_nothing_else(tmp_path: Path) -> None:
    cached = encoder("embed", ModelKind.EMBEDDING, cache_ttl_s=60)

    def asking(text: str) -> bytes:
        return request("/v1/embeddings", b'{"model":"embed","input":"%b"}' % text.encode())

    async def seconds(data: bytes) -> float:
        began = asyncio.get_running_loop().time()
        answer = await first_answer(gateway.port, data)
        assert status_of(answer) == 200, answer[:300]
        return asyncio.get_running_loop().time() - began

    async with gateway_process(tmp_path, cached) as gateway:
        await seconds(asking("a"))
        gateway.redis.freeze()
        waited = [await seconds(asking(f"text {number}")) for number in range(12)]
        gateway.redis.thaw()
        assert max(waited) < 20  # a tenth of a second each where nobody is busy, and nothing once it is known

        async with asyncio.timeout(60):
            while b"x-conch-cache: hit" not in await first_answer(gateway.port, asking("b")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
