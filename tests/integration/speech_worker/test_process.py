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


SIGNS = pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])


@SIGNS
@pytest.mark.parametrize("stream", ["openai", None])
async def test_a_decoder_that_is_killed_or_hangs_costs_no_word(
    stage: Stage, stream: str | None, sign: signal.Signals
) -> None:
    words = [number % 64 for number in range(1500)]
    asking, first = await begin(stage, stage.worker, f"{sign.name}-{stream}", words, stream=stream)
    if stream:
        await first.wait()
    (child,) = stage.worker.decoding_children()
    child.send_signal(sign)
    answer = await asking
    assert answer.status == 200
    assert (answer.events[-1] if stream else answer.json)["text"] == said(words)
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")


@SIGNS
async def test_a_second_decoder_that_is_killed_or_hangs_is_a_503_that_says_when_to_come_back(
    stage: Stage, sign: signal.Signals
) -> None:
    asking, _ = await begin(stage, stage.worker, f"{sign.name}-twice", [1] * 4000)
    await end_two_decoders(stage, sign)
    answer = await asking
    assert (answer.status, answer.json["error"]["code"], answer.headers["retry-after"]) == (503, "overloaded", "1")
    assert (await stage.hear(file_of(spoken(FEW)))).json["text"] == said(FEW)
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")


async def test_a_second_decoder_that_hangs_in_a_stream_ends_it_with_an_error(stage: Stage) -> None:
    name = "streamed"
    asking, first = await begin(stage, stage.worker, name, [1] * 4000, stream="openai")
    await first.wait()
    await end_two_decoders(stage, signal.SIGSTOP)
    answer = await asking
    *deltas, error = answer.events
    assert (answer.status, error["error"]["code"]) == (200, "overloaded")
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert "data: [DONE]" not in answer.frames
    assert answer.usage["audio_s"] > 0
    await eventually(lambda: not stage.worker.decoding_children(), "the decoder to be gone")
    await eventually(lambda: stage.idle(name), "the engine to hear of it")


async def end_two_decoders(stage: Stage, sign: signal.Signals) -> None:
    """Kill or freeze the decoder of the only request, and the one that takes its place."""
    (first,) = stage.worker.decoding_children()
    first.send_signal(sign)
    await eventually(lambda: [child for child in stage.worker.decoding_children() if child != first], "another decoder")
    for child in stage.worker.decoding_children():
        if child != first:
            child.send_signal(sign)


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
