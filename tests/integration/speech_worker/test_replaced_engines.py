"""An engine that is replaced while a file is heard: its windows go on with the next one, and no word is lost."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTarget
from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Dialect, Engine, SpeechProfile
from conch_kit.registry.writer import RegistryWriter
from testkit.builders import records
from testkit.models.tone_speech import WORDS, file_of, said, spoken
from testkit.patient_redis import patient_redis
from testkit.processes.speech_worker import Transcript
from testkit.servers.triton import RunningTriton, triton_server
from testkit.waiting import eventually

from .conftest import Stage, install_ear

EAR = ModelId("local/ear")
PACE_S = 0.5
SPOKEN = [number % WORDS for number in range(1680)]
"""A dozen windows, of which four are at work at a time."""
FILE = file_of(spoken(SPOKEN))


@dataclass(frozen=True, slots=True)
class Ear:
    """One engine, and what it has been asked."""

    triton: RunningTriton
    events: Path

    @property
    def engine(self) -> Engine:
        """What the registry says of it."""
        return Engine(grpc=EngineAddress(self.triton.grpc), model="ear")

    def windows(self, what: str) -> int:
        """Return how many windows it has heard, or answered."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        return sum(json.loads(line)["what"] == what for line in lines)


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[tuple[Ear, Ear]]:
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        install_ear(folder / "models", "ear", folder / "events", pace_s=str(PACE_S))
    old, new = (triton_server(folder / "models", "ear", folder=folder) for folder in folders)
    with old as first, new as second:
        yield Ear(first, folders[0] / "events"), Ear(second, folders[1] / "events")


async def publish(stage: Stage, engines: Sequence[Ear]) -> None:
    """Have the registry name these engines of the model."""
    route = records.route("ear").model_copy(
        update={
            "dialect": Dialect.SPEECH,
            "tokenizer_digest": stage.digest,
            "max_model_len": 448,
            "speech": SpeechProfile(languages=("en", "de")),
        }
    )
    async with patient_redis(stage.redis.url) as redis:
        await RegistryWriter(redis).publish({EAR: (route, tuple(ear.engine for ear in engines))})


def target_of(stage: Stage, ear: Ear) -> SpeechTarget:
    return changed(stage.request().target, grpc=ear.engine.grpc, model="ear", model_id=EAR)


async def hear_while(stage: Stage, ear: Ear, happens: Callable[[], None], **changes: object) -> Transcript:
    """Have the file heard by an engine to which something happens when it has answered windows and has others."""
    hearing = asyncio.create_task(stage.hear(FILE, target=target_of(stage, ear), **changes))
    await eventually(lambda: 4 <= ear.windows("answered") < ear.windows("heard"), "windows at work behind others")
    happens()
    return await hearing


def text_of(answer: Transcript) -> str:
    if not answer.frames:
        return str(answer.json["text"])
    assert answer.frames[-2] == "data: [DONE]", answer.frames[-3:]
    assert "".join(event.get("delta", "") for event in answer.events) == answer.events[-1]["text"]
    return str(answer.events[-1]["text"])


@pytest.mark.parametrize("stream", ["openai", None])
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
async def test_the_windows_that_are_left_go_to_the_next_engine(
    stage: Stage, ears: tuple[Ear, Ear], sign: signal.Signals, stream: str | None
) -> None:
    old, new = ears
    await publish(stage, [new])  # as an operator does before it ends an engine
    answer = await hear_while(stage, old, lambda: os.kill(old.triton.pid, sign), stream=stream)
    assert (answer.status, text_of(answer)) == (200, said(SPOKEN))
    assert new.windows("answered") > 0
    again = old.windows("heard") - old.windows("answered")  # an engine that drains answers all that it has begun
    assert again == 0 if sign is signal.SIGTERM else 0 < again <= 4


async def test_windows_wait_for_the_next_engine(stage: Stage, ears: tuple[Ear, Ear]) -> None:
    old, new = ears
    await publish(stage, [])
    hearing = asyncio.create_task(
        hear_while(stage, old, lambda: os.kill(old.triton.pid, signal.SIGTERM), stream="openai")
    )
    await eventually(lambda: not _runs(old.triton.pid), "the old engine to have ended")
    await publish(stage, [new])
    assert text_of(await hearing) == said(SPOKEN)


async def test_windows_go_on_with_an_engine_that_is_started_again_where_it_was(stage: Stage, tmp_path: Path) -> None:
    install_ear(tmp_path / "models", "ear", events := tmp_path / "events", pace_s=str(PACE_S))
    with triton_server(tmp_path / "models", "ear", folder=tmp_path) as first:
        ear = Ear(first, events)
        await publish(stage, [ear])
        hearing = asyncio.create_task(
            hear_while(stage, ear, lambda: os.kill(first.pid, signal.SIGTERM), stream="openai")
        )
        await eventually(lambda: not _runs(first.pid), "the engine to have ended")
        port = int(first.grpc.rpartition(":")[2])
        with triton_server(tmp_path / "models", "ear", folder=tmp_path, grpc_port=port):
            assert text_of(await hearing) == said(SPOKEN)


async def test_an_engine_that_breaks_down_where_there_is_no_other_ends_the_stream(
    stage: Stage, ears: tuple[Ear, Ear]
) -> None:
    old, _ = ears
    await publish(stage, [old])
    answer = await hear_while(stage, old, lambda: os.kill(old.triton.pid, signal.SIGKILL), stream="openai")
    assert answer.events[-1]["error"]["code"] == "upstream_lost"
    assert "data: [DONE]" not in answer.frames


def _runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().split()[2] != "Z"
    except OSError:
        return False
