"""Files that go through a real gateway process to a worker that plays: their memory, their ends, and their retries."""

import asyncio
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from conch_contracts.names import TRANSCRIBE_PATH, WorkerUrl
from conch_contracts.records import Pool
from conch_kit.registry.heartbeat import HeartbeatWriter
from testkit.gateway.process import answers, gateway_process
from testkit.gateway.speech import TRANSCRIPTIONS, speech_route
from testkit.gateway.speech_worker import heard, transcribe
from testkit.http.forms import AUDIO, BOUNDARY, form, parts, text_part
from testkit.patient_redis import patient_redis
from testkit.processes.nameless_files import nameless_files
from testkit.servers.scripted_http import ScriptedHttp
from testkit.waiting import eventually

MIB = 1024 * 1024
TYPE = f"content-type: multipart/form-data; boundary={BOUNDARY}"
LARGEST = os.urandom(25 * MIB)


@pytest.fixture
async def gateway(tmp_path):
    async with gateway_process(tmp_path, speech_route()) as process:
        yield process


async def send(gateway, body):
    status, _, answer = await gateway.post(TRANSCRIPTIONS, body, TYPE)
    return status, answer


def files_of(gateway):
    """Return the files without a name that the gateway holds."""
    return nameless_files(gateway.process.pid)


def memory_mib(gateway, field):
    for line in Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise AssertionError(field)


@contextmanager
def at_most(gateway, mib):
    """Fail when the gateway's memory grows by more than this while the context lasts."""
    before = memory_mib(gateway, "VmRSS")
    Path(f"/proc/{gateway.process.pid}/clear_refs").write_text("5")
    yield
    grown = memory_mib(gateway, "VmHWM") - before
    assert grown <= mib, f"{grown:.1f} MiB"


async def test_a_large_file_whose_model_comes_last_hardly_takes_memory(gateway):
    body = form(("model", "ear"), content=LARGEST)
    await send(gateway, form())
    with at_most(gateway, 8):
        status, answer = await send(gateway, body)
    assert status == 200, answer
    assert heard(LARGEST).encode() in answer
    await eventually(lambda: files_of(gateway) == [], "the end of the file")


async def test_eight_large_files_at_once_take_little_memory(gateway):
    together = asyncio.Barrier(8)

    async def waits(call):
        if call.path == TRANSCRIBE_PATH:
            await together.wait()
        await answers(call)

    gateway.backend.script = waits
    body = form(("model", "ear"), content=LARGEST)
    await send(gateway, form(content=b""))
    with at_most(gateway, 64):
        answered = await asyncio.gather(*(send(gateway, body) for _ in range(8)))
    assert {status for status, _ in answered} == {200}
    assert all(heard(LARGEST).encode() in answer for _, answer in answered)
    await eventually(lambda: files_of(gateway) == [], "the end of the files")


async def begun(gateway, body):
    """Open a connection, and send the beginning of a request on it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: x\r\n{TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body[: 5 * MIB])
    return reader, writer


async def test_a_client_that_hangs_up_while_it_sends_leaves_nothing(gateway):
    _, writer = await begun(gateway, form(content=LARGEST))
    await eventually(lambda: files_of(gateway), "the file")
    writer.transport.abort()
    await eventually(lambda: files_of(gateway) == [], "the end of the file")
    assert gateway.backend.calls == []


async def test_a_client_that_hangs_up_while_its_file_is_worked_on_frees_worker_and_file(gateway):
    gone = asyncio.Event()

    async def never(call):
        await call.closed()
        gone.set()

    gateway.backend.script = never
    body = form(content=LARGEST[: 4 * MIB])
    _, writer = await begun(gateway, body)
    await eventually(lambda: gateway.backend.calls, "the worker to be asked")
    writer.transport.abort()
    await asyncio.wait_for(gone.wait(), 60)
    await eventually(lambda: files_of(gateway) == [], "the end of the file")


async def test_a_file_goes_to_another_worker_when_the_first_one_breaks(gateway):
    broke = []

    async def breaks_once(call):
        if broke:
            await transcribe(call)
        else:
            broke.append(call)
            call.close()

    async with ScriptedHttp(transcribe) as other, patient_redis(gateway.redis.url) as client:
        beat = HeartbeatWriter(
            client, Pool.SPEECH, WorkerUrl(other.url), in_flight=lambda: 0, draining=lambda: False, interval_s=0.5
        )
        async with beat:
            async with asyncio.timeout(60):
                while not other.calls:
                    await send(gateway, form())
            gateway.backend.script = other.script = breaks_once
            status, answer = await send(gateway, form(content=LARGEST[: 3 * MIB]))
    assert (status, len(broke)) == (200, 1), answer
    assert heard(LARGEST[: 3 * MIB]).encode() in answer


async def test_a_length_above_the_limit_is_refused_before_the_body_comes(gateway):
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: x\r\n{TYPE}\r\ncontent-length: {30 * MIB}\r\n\r\n"
    answer = await gateway.raw(head.encode())
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Maximum content size limit (26214400) exceeded" in answer
    assert b"request_too_large" in answer


async def test_a_file_above_the_limit_is_refused_while_it_comes_in_chunks(gateway):
    body = form(content=LARGEST + b"x")
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[: 20 * MIB], body[20 * MIB :]))
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: x\r\n{TYPE}\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = await gateway.raw(head.encode() + chunked + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    await eventually(lambda: files_of(gateway) == [], "the end of the file")


async def test_a_form_that_arrives_byte_by_byte_is_the_same(gateway):
    body = form(("model", "ear"))
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: x\r\n{TYPE}\r\ncontent-length: {len(body)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode())
    for at in range(len(body)):
        writer.write(body[at : at + 1])
        await writer.drain()
        await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    assert heard(AUDIO).encode() in answer


async def test_an_upload_that_stands_still_is_a_408_and_leaves_nothing(tmp_path):
    async with gateway_process(tmp_path, speech_route(), body_timeout_s="0.5") as gateway:
        reader, writer = await begun(gateway, form(content=LARGEST))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.transport.abort()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"timeout"' in answer
        await eventually(lambda: files_of(gateway) == [], "the end of the file")


async def test_files_that_find_no_room_are_refused_and_others_are_served(tmp_path):
    async with gateway_process(tmp_path, speech_route(), upload_spool_bytes=str(3 * MIB)) as gateway:
        status, answer = await send(gateway, form(content=LARGEST[: 6 * MIB]))
        assert (status, b"overloaded" in answer) == (503, True)
        status, _ = await send(gateway, form(content=LARGEST[: 2 * MIB]))
        assert status == 200


@pytest.mark.parametrize(
    ("body", "header", "status", "code"),
    [
        (b"{}", "content-type: application/json", 415, b"unsupported_media_type"),
        (form()[:-4], TYPE, 400, b"invalid_multipart"),
        (parts(text_part("file", "abc")), TYPE, 422, b"invalid_value"),
        (form(content=b""), TYPE, 400, b"audio_too_short"),
    ],
)
async def test_a_bad_form_has_the_shape_of_every_error(gateway, body, header, status, code):
    found, headers, answer = await gateway.post(TRANSCRIPTIONS, body, header)
    assert (found, headers["content-type"]) == (status, "application/json")
    assert b'"code":"' + code + b'"' in answer
    assert headers["x-request-id"]
