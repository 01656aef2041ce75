"""Parts that die or hang while speech is heard: a status or an error frame tells it, and they come back."""

import asyncio
import io
import json
import signal
import time
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
import psutil
import pytest

from testkit.models.speech_golden import FOLDER
from testkit.processes.conch_up import ConchUp
from testkit.waiting import eventually

PACED = f"""\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: ear}}
spec:
  kind: Transcription
  servedNames: [ear]
  source: {{path: {FOLDER}}}
  engine:
    cpu: {{maxBatchSize: 1, tokensPerSecond: 3}}
  routing: {{firstTokenTimeout: 10s, interTokenTimeout: 4s, queue: {{wait: 20s}}}}
"""
FAST = PACED.replace("tokensPerSecond: 3", "tokensPerSecond: 40")
BROADER = FAST.replace("maxBatchSize: 1", "maxBatchSize: 2")
STUB, SERVER, WORKER = "triton_python_backend_stub", "tritonserver", "conch_speech_worker"
WINDOWS, WINDOW_S = 5, 25
SETTLED_S = 3.0
"""Far less than five windows take at that pace: an answer that is whole so soon after a blow was so before."""
NOTICED_S = 60
"""Far less than the time-out of the request."""
RETURNS_S = 120
TRIES = 5
CLIENTS, LASTING = 4, 6
"""Clients that ask at a time, and the windows of their files: more than an engine has of one at a time."""


@dataclass(slots=True)
class Outcome:
    """How a request ended."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False
    broken: bool = False
    """The connection broke in the middle."""

    @property
    def failed(self) -> bool:
        """Whether the last thing that came is an error."""
        return "error" in self.events[-1]


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    folder = tmp_path_factory.mktemp("speech-faults")
    (file := folder / "ear.yaml").write_text(PACED)
    with ConchUp(folder / "state", file) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def sound(windows: int) -> bytes:
    """Return a few words at the beginning of each of so many windows."""
    with wave.open(str(FOLDER / "wavs" / "one_two_three.wav")) as said:
        words, rate = said.readframes(said.getnframes()), said.getframerate()
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((words + bytes(2 * rate * WINDOW_S - len(words))) * windows)
    return buffer.getvalue()


async def ask(
    conch: ConchUp,
    session: aiohttp.ClientSession,
    *,
    stream: bool,
    windows: int = WINDOWS,
    begun: asyncio.Event | None = None,
) -> Outcome:
    """Ask for a transcript; `begun` is set by the first event of a stream."""
    form = aiohttp.FormData({"model": "ear", "language": "en", "stream": str(stream).lower()})
    form.add_field("file", io.BytesIO(sound(windows)), filename="words.wav", content_type="audio/wav")
    outcome = Outcome()
    try:
        async with session.post(f"{conch.base_url}/audio/transcriptions", data=form) as answer:
            outcome.status = answer.status
            outcome.headers = {name.lower(): value for name, value in answer.headers.items()}
            if "json" in answer.content_type:
                outcome.events.append(await answer.json())
                return outcome
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    outcome.events.append(json.loads(line[6:]))
                    if begun is not None:
                        begun.set()
                outcome.done |= line.startswith(b"data: [DONE]")
    except aiohttp.ClientPayloadError:
        outcome.broken = True
    return outcome


async def answers_again(conch: ConchUp, session: aiohttp.ClientSession) -> None:
    deadline = time.monotonic() + RETURNS_S
    while (outcome := await ask(conch, session, stream=False, windows=1)).status != 200:
        assert outcome.status in (502, 503, 504), outcome
        assert time.monotonic() < deadline, outcome
        await asyncio.sleep(0.2)
    assert outcome.events[0]["text"] == "one two three"


@dataclass(frozen=True, slots=True)
class Struck:
    """A part that has died or stands still, and two requests that were at work in it."""

    process: psutil.Process
    stream: asyncio.Task[Outcome]
    whole: asyncio.Task[Outcome]


async def strike(conch: ConchUp, session: aiohttp.ClientSession, marker: str, sign: signal.Signals) -> Struck:
    """Have a part die or stand still while two requests are at work in it, of which it has answered none."""
    for _ in range(TRIES):
        await answers_again(conch, session)
        begun = asyncio.Event()
        stream = asyncio.create_task(ask(conch, session, stream=True, begun=begun))
        whole = asyncio.create_task(ask(conch, session, stream=False))
        await asyncio.wait_for(begun.wait(), NOTICED_S)
        process = conch.process(marker)
        process.send_signal(sign)
        try:
            await eventually(partial(_has_stopped, process), "the part to have died or to stand still")
            ended, _ = await asyncio.wait([stream, whole], timeout=SETTLED_S)
            if not any(task.result().status == 200 and not task.result().failed for task in ended):
                return Struck(process, stream, whole)
        except BaseException:
            _resume(process)
            raise
        _resume(process)
        await asyncio.gather(stream, whole)
    raise AssertionError("Each time an answer was whole before the part was struck.")


def _has_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _resume(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("marker", [WORKER, STUB, SERVER])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_part_that_dies_or_hangs_is_a_status_before_the_first_byte_and_an_error_frame_behind_it(
    conch: ConchUp, session: aiohttp.ClientSession, marker: str, sign: signal.Signals
) -> None:
    struck = await strike(conch, session, marker, sign)
    try:
        stream, whole = await asyncio.wait_for(asyncio.gather(struck.stream, struck.whole), NOTICED_S)
    finally:
        _resume(struck.process)
    check_broken_off(stream, killed=sign is signal.SIGKILL)
    match marker, sign:
        case (_, signal.SIGKILL) if marker == WORKER:
            check_heard(whole)  # it is started again, and whoever has seen nothing is heard by it
        case (_, signal.SIGSTOP) if marker == WORKER:
            check_refused(whole)  # there is no other, and nobody starts one
        case _ if whole.status == 200:
            check_heard(whole)  # by the engine that was started again in time
        case _:
            check_refused(whole)
    await answers_again(conch, session)


async def test_no_transcription_is_lost_while_the_engine_is_replaced(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    (file := tmp_path / "ear.yaml").write_text(FAST)
    with ConchUp(tmp_path / "state", file) as conch:
        await replace_under_load(conch, session, partial(file.write_text, BROADER))


async def replace_under_load(
    conch: ConchUp, session: aiohttp.ClientSession, replace_engine: Callable[[], object]
) -> None:
    await answers_again(conch, session)
    load = Load(conch, session, text_of(await ask(conch, session, stream=False, windows=LASTING)))
    async with load:
        await eventually(lambda: load.answers >= CLIENTS, "the load to be served", NOTICED_S)
        old = conch.process(SERVER)
        replace_engine()
        await eventually(partial(_has_gone, old), "the engine to be replaced", RETURNS_S)
        before = load.answers
        await eventually(lambda: load.answers >= before + CLIENTS, "the next engine to serve", NOTICED_S)
    assert load.failures == []


def _has_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


class Load:
    """Clients that have a file heard again and again, whole and as streams, and try nothing twice."""

    def __init__(self, conch: ConchUp, session: aiohttp.ClientSession, expected: str) -> None:
        self.answers = 0
        self.failures: list[Outcome] = []
        self._conch = conch
        self._session = session
        self._expected = expected
        self._ends = asyncio.Event()
        self._clients: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._clients = [asyncio.create_task(self._ask(stream=bool(number % 2))) for number in range(CLIENTS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ends.set()
        await asyncio.gather(*self._clients)  # what is in flight counts as well

    async def _ask(self, *, stream: bool) -> None:
        while not self._ends.is_set():
            outcome = await ask(self._conch, self._session, stream=stream, windows=LASTING)
            self.answers += 1
            if outcome.failed or text_of(outcome) != self._expected or outcome.done is not stream:
                self.failures.append(outcome)


def text_of(outcome: Outcome) -> str:
    return str(outcome.events[-1]["text"])


def check_broken_off(stream: Outcome, *, killed: bool) -> None:
    """Check that a stream ends with an error and nothing else; a part that is killed is known to be lost."""
    assert (stream.status, stream.broken, stream.done) == (200, False, False)
    *heard, error = stream.events
    assert 0 < len(heard) < WINDOWS
    assert {event["type"] for event in heard} == {"transcript.text.delta"}
    assert error["error"]["code"] in ({"upstream_lost"} if killed else {"upstream_lost", "timeout"}), error


def check_heard(whole: Outcome) -> None:
    assert whole.status == 200, whole
    assert whole.events[0]["text"].startswith("one two three")
    assert whole.events[0]["usage"]["seconds"] == WINDOWS * WINDOW_S


def check_refused(whole: Outcome) -> None:
    assert whole.status in (502, 503, 504), whole
    (body,) = whole.events
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert ("retry-after" in whole.headers) == (whole.status == 503)
