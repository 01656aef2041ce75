"""The process among its neighbours: decoders that die or hang, and its own end."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from testkit.models.tone_speech import file_of, said, spoken
from testkit.processes.speech_worker import SpeechWorker, Transcript
from testkit.waiting import eventually

from .conftest import Stage

FEW = [3, 1, 4, 1, 5, 9, 2, 6]


async def begin(
    stage: Stage, worker: SpeechWorker, name: str, words: list[int], **changes: object
) -> tuple[asyncio.Task[Transcript], asyncio.Event]:
    """Have words heard by the slow engine; return that work, and an event for the first bytes of the answer."""
    file, first = file_of(spoken(words)), asyncio.Event()
    request = stage.request("slow", file_bytes=len(file), request_id=name, **changes)

    async def work() -> Transcript:
        async with aiohttp.ClientSession() as session, worker.open(session, request, file) as answer:
            body = await answer.content.readany()
            first.set()
            body += await answer.content.read()
            headers = {key.lower(): value for key, value in answer.headers.items()}
        return Transcript(answer.status, headers, body, body.decode().split("\n\n")[:-1])

    task = asyncio.create_task(work())
    await eventually(lambda: stage.seen("heard", name), "an engine to hear")
    return task, first


@pytest.mark.parametrize("stream", ["openai", None])
async def test_a_decoder_that_is_killed_costs_no_word(stage: Stage, stream: str | None) -> None:
    words = [number % 64 for number in range(1500)]
    asking, first = await begin(stage, stage.worker, f"killed-{stream}", words, stream=stream)
    if stream:
        await first.wait()
    (child,) = stage.worker.decoding_children()
    child.send_signal(signal.SIGKILL)
    answer = await asking
    assert answer.status == 200
    assert (answer.events[-1] if stream else answer.json)["text"] == said(words)
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")


async def test_decoders_that_are_killed_again_are_a_503_that_says_when_to_come_back(stage: Stage) -> None:
    asking, _ = await begin(stage, stage.worker, "killed-twice", [1] * 4000)
    (first,) = stage.worker.decoding_children()
    first.send_signal(signal.SIGKILL)
    await eventually(lambda: [child for child in stage.worker.decoding_children() if child != first], "another decoder")
    for child in stage.worker.decoding_children():
        child.send_signal(signal.SIGKILL)
    answer = await asking
    assert (answer.status, answer.json["error"]["code"], answer.headers["retry-after"]) == (503, "overloaded", "1")


async def test_a_decoder_that_hangs_ends_its_request_alone(stage: Stage) -> None:
    asking, _ = await begin(stage, stage.worker, "decoder-hangs", [1] * 1500)
    (child,) = stage.worker.decoding_children()
    child.send_signal(signal.SIGSTOP)
    answer = await asking
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_audio")
    assert (await stage.hear(file_of(spoken(FEW)))).json["text"] == said(FEW)
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")


async def test_a_decoder_that_hangs_in_a_stream_ends_it_with_an_error(stage: Stage) -> None:
    name = "streamed"
    asking, first = await begin(stage, stage.worker, name, [1] * 4000, stream="openai")
    await first.wait()
    (child,) = stage.worker.decoding_children()
    child.send_signal(signal.SIGSTOP)
    answer = await asking
    *deltas, error = answer.events
    assert (answer.status, error["error"]["code"]) == (200, "invalid_audio")
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert "data: [DONE]" not in answer.frames
    assert answer.usage["audio_s"] > 0
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")
    await eventually(lambda: stage.idle(name), "the engine to hear of it")


async def test_a_drain_lets_files_end_and_tells_those_that_cannot(stage: Stage, tmp_path: Path) -> None:
    short = [1, 2] * 500  # more than is decoded when the drain begins
    with SpeechWorker(stage.redis.url, tmp_path, drain_s=600) as worker:
        stream, first = await begin(stage, worker, "cut", [3] * 5000, stream="openai")
        await first.wait()
        whole, _ = await begin(stage, worker, "ends", short)
        worker.terminate()
        assert not whole.done()
        ended = await whole
        worker.terminate()  # the end of the time for a drain comes as early as one likes
        broken = await stream
        await eventually(lambda: not worker.runs(), "the worker to end")
    assert (ended.status, ended.json["text"]) == (200, said(short))
    assert broken.events[-1]["error"]["code"] == "server_shutting_down"
    assert "data: [DONE]" not in broken.frames
    await eventually(lambda: stage.idle("cut"), "the engine to hear of it")
