"""Triton over HTTP against servers that send what no engine does."""

from contextlib import nullcontext

import pytest

from conch_contracts.names import EngineAddress
from conch_kit.addresses.rules import AddressRules
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.errors import EngineError, MalformedResponse
from conch_kit.triton.http_client import TritonHttp
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES, MAX_MESSAGE_BYTES
from testkit.servers.scripted_http import Call, ScriptedHttp

PIECE = b" " * (1 << 20)


@pytest.mark.parametrize(("asks_for_numbers", "most"), [(False, MAX_CONTROL_BYTES), (True, MAX_MESSAGE_BYTES)])
async def test_a_body_without_end_is_given_up_before_it_fills_the_memory(asks_for_numbers: bool, most: int) -> None:
    sent = 0

    async def endless(call: Call) -> None:
        nonlocal sent
        await call.begin()
        while True:
            await call.chunk(PIECE)
            sent += len(PIECE)

    async with ScriptedHttp(endless) as server, TritonHttp() as triton:
        address = EngineAddress(server.url)
        asking = (
            triton.infer(address, "m", [], "out", timeout_s=60)
            if asks_for_numbers
            else triton.model_config(address, "m")
        )
        with pytest.raises(MalformedResponse, match=f"larger than {most >> 20} MiB"):
            await asking
    assert sent < 2 * most + 8 * len(PIECE)


@pytest.mark.parametrize("status", [200, 500])
async def test_json_that_would_take_many_times_its_bytes_is_not_parsed(status: int) -> None:
    async def huge(call: Call) -> None:
        await call.answer(b"[" + b"[]," * (1 << 20) + b"[]]", status=status)

    async with ScriptedHttp(huge) as server, TritonHttp() as triton:
        with pytest.raises(EngineError, match="larger than 1 MiB"):
            await triton.infer(EngineAddress(server.url), "m", [], "out", timeout_s=5)


async def test_another_output_is_not_taken_for_the_one_that_was_asked_for() -> None:
    async def other(call: Call) -> None:
        await call.answer(b'{"outputs": [{"name": "other", "datatype": "FP32", "shape": [1]}]}')

    async with ScriptedHttp(other) as server, TritonHttp() as triton:
        with pytest.raises(MalformedResponse, match="no output out"):
            await triton.infer(EngineAddress(server.url), "m", [], "out", timeout_s=5)


@pytest.mark.parametrize("length", ["-1", "1000"])
async def test_a_length_that_the_answer_does_not_have_is_refused(length: str) -> None:
    async def lying(call: Call) -> None:
        await call.answer(b"{}", headers={"Inference-Header-Content-Length": length})

    async with ScriptedHttp(lying) as server, TritonHttp() as triton:
        with pytest.raises(MalformedResponse, match=f"its head says {length}"):
            await triton.infer(EngineAddress(server.url), "m", [], "out", timeout_s=5)


async def test_nobody_is_sent_elsewhere() -> None:
    async def elsewhere(call: Call) -> None:
        await call.answer(b"{}", status=307, headers={"location": "/other"})

    async with ScriptedHttp(elsewhere) as server, TritonHttp() as triton:
        with pytest.raises(EngineError):
            await triton.model_config(EngineAddress(server.url), "m")
    assert [call.path for call in server.calls] == ["/v2/models/m/config"]


async def test_a_checked_engine_is_asked_under_the_name_that_its_author_gave() -> None:
    async def engine(call: Call) -> None:
        await call.answer(b"{}")

    async with ScriptedHttp(engine) as server, TritonHttp() as triton:
        port = server.url.rpartition(":")[2]
        addresses = CheckedAddresses(AddressRules(allowed=("127.0.0.0/8",)))
        address = await addresses.dialled(EngineAddress(f"http://localhost:{port}"), "team")
        assert address == f"http://127.0.0.1:{port}#localhost:{port}"
        await triton.model_config(address, "m")
    assert [call.headers["host"] for call in server.calls] == [f"localhost:{port}"]


@pytest.mark.parametrize(
    ("said", "is_one"), [(b'{"name": "triton", "extensions": []}', True), (b"{}", False), (b'{"name": "nginx"}', False)]
)
async def test_only_a_server_of_models_speaks_the_protocol(said: bytes, is_one: bool) -> None:
    async def server(call: Call) -> None:
        await call.answer(said)

    async with ScriptedHttp(server) as scripted, TritonHttp() as triton:
        with nullcontext() if is_one else pytest.raises(MalformedResponse):
            await triton.check_protocol(EngineAddress(scripted.url))


@pytest.mark.parametrize("said", [b"<html>", b"", b"[]", b"1"])
async def test_what_is_no_json_object_is_no_answer(said: bytes) -> None:
    async def proxy(call: Call) -> None:
        await call.answer(said)

    async with ScriptedHttp(proxy) as server, TritonHttp() as triton:
        address = EngineAddress(server.url)
        with pytest.raises(MalformedResponse, match="no JSON"):
            await triton.model_config(address, "m")
        with pytest.raises(MalformedResponse, match="no JSON"):
            await triton.infer(address, "m", [], "out", timeout_s=60)
