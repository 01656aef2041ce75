"""Files that are damaged at random, in the real decoding child: each is heard or refused, and the next one is heard."""

import asyncio
import random
import tempfile
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_contracts.messages.message import changed as changed_message
from conch_kit.errors import InvalidRequest
from conch_speech_worker.audio.child_messages import DecodingLimits
from conch_speech_worker.audio.child_pool import DecodingChildren, fork_server_id
from testkit.models.container_files import FORMS, container_of
from testkit.models.damaged_sound import HEAD_BYTES, KINDS, WAYS, damaged, sound_files
from testkit.models.tone_speech import file_of, silence, spoken

WORDS = [3, 1, 4, 1, 5]
SEEDS = sound_files(spoken(WORDS))
MOST_S = 30.0
EACH, MOST_GROWTH_BYTES = 4, 8 * 1024 * 1024
"""Files of each kind that are damaged in each way; and by what processes may grow with all of them."""
LIMITS = DecodingLimits(max_audio_s=MOST_S, memory_bytes=512 * 1024 * 1024, cpu_s=20, silence_s=60)
REFUSALS = {f"file: {code}" for code in ("audio_too_short", "audio_too_long", "invalid_audio", "unsupported_format")}

PLACES = st.one_of(st.integers(0, HEAD_BYTES), st.integers(0, 2**31))
CHANGES = st.lists(st.tuples(PLACES, st.one_of(st.integers(0, 255), st.sampled_from([0, 127, 128, 255]))), max_size=40)
CUTS = st.one_of(st.none(), st.integers(1, 2**31))


class Decoder:
    """The children that decode, on a loop that lives as long as the tests of this module."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._children = self._runner.run(DecodingChildren().__aenter__())

    def close(self) -> None:
        """End the loop; the fork server ends with the process."""
        self._runner.close()

    def outcome(self, data: bytes, limits: DecodingLimits = LIMITS) -> float | str:
        """Return how many seconds are heard, or what is refused and why."""
        return self._runner.run(self._outcome(data, limits))

    async def _outcome(self, data: bytes, limits: DecodingLimits) -> float | str:
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(data)
            heard = 0
            try:
                async with self._children.decoding(file.fileno(), limits) as sound:
                    while samples := await sound.read():
                        heard += len(samples) // 2
            except InvalidRequest as refused:
                return f"{refused.param}: {refused.code}"
        return heard / SAMPLE_RATE


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    made = Decoder()
    yield made
    made.close()


def changed_limits(**changes: float) -> DecodingLimits:
    return changed_message(LIMITS, **changes)


def changed(data: bytes, changes: list[tuple[int, int]], cut: int | None) -> bytes:
    """Return a file with some other bytes, and maybe without its end."""
    mutant = bytearray(data)
    for place, value in changes:
        mutant[place % len(mutant)] = value
    return bytes(mutant if cut is None else mutant[: 1 + cut % len(mutant)])


def is_heard_or_refused(outcome: float | str) -> bool:
    return outcome in REFUSALS or (isinstance(outcome, float) and 0 < outcome <= MOST_S + 0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_that_is_not_damaged_is_heard(decoder: Decoder, seed: str) -> None:
    assert decoder.outcome(SEEDS[seed]) == pytest.approx(1.0, abs=0.15)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(SEEDS)), CHANGES, CUTS)
def test_a_damaged_file_is_heard_or_refused(
    decoder: Decoder, seed: str, changes: list[tuple[int, int]], cut: int | None
) -> None:
    assert is_heard_or_refused(decoder.outcome(changed(SEEDS[seed], changes, cut)))


def of_unknown_length(flac: bytes) -> bytes:
    """Return a FLAC file that does not say how long it is: its number of samples is 0, in the last bits of 8 bytes."""
    at = 8 + 10  # behind the marker and the block's header, where rate, channels and samples stand
    bits = int.from_bytes(flac[at : at + 8], "big") >> 36 << 36
    return flac[:at] + bits.to_bytes(8, "big") + flac[at + 8 :]


BOMB_S = 600
BOMBS = {
    "flac": lambda: file_of(silence(BOMB_S), kind="FLAC", subtype="PCM_16"),
    "flac of unknown length": lambda: of_unknown_length(file_of(silence(BOMB_S), kind="FLAC", subtype="PCM_16")),
    "opus": lambda: file_of(silence(BOMB_S), kind="OGG", subtype="OPUS"),
    "m4a": lambda: container_of(silence(BOMB_S), "m4a", SAMPLE_RATE),
    "aac": lambda: container_of(silence(BOMB_S), "aac", SAMPLE_RATE),
}
"""Silence, which is hundreds of times as long as its file is large."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_as_soon_as_it_is_too_long(decoder: Decoder, bomb: str) -> None:
    data = BOMBS[bomb]()
    assert len(data) < BOMB_S * SAMPLE_RATE * 2 / 20
    assert decoder.outcome(data) == "file: audio_too_long"


WIDE = {kind: KINDS[kind] for kind in ("wav", "wav-float", "flac", "vorbis")}
"""Forms that take eight channels, of which each piece that is read is larger than what a child has spare."""


@pytest.mark.parametrize("form", [*WIDE, *FORMS])
def test_a_file_that_takes_too_much_memory_is_refused(decoder: Decoder, form: str) -> None:
    data = SEEDS[form]
    if form in WIDE:
        kind, subtype = WIDE[form]
        data = file_of(spoken(WORDS, 96_000), 96_000, kind=kind, subtype=subtype, channels=8)
        assert decoder.outcome(data) == pytest.approx(1.0, abs=0.15)
    assert decoder.outcome(data, changed_limits(memory_bytes=1)) == "file: invalid_audio"


def test_a_file_that_takes_too_much_time_is_refused(decoder: Decoder) -> None:
    hours = SEEDS["aac"] * 5000  # frames alone: however often it is repeated it is one file
    limits = changed_limits(cpu_s=1, max_audio_s=100_000.0)
    assert decoder.outcome(hours, limits) == "file: invalid_audio"


def test_many_damaged_files_leave_nothing_behind(decoder: Decoder) -> None:
    chance = random.Random(11)
    for file in SEEDS.values():
        decoder.outcome(file)  # the first files take what all later ones have
    own, server = psutil.Process(), psutil.Process(fork_server_id())  # this process may have others for other tests
    before = [process.memory_info().rss for process in (own, server)]
    for _ in range(EACH):
        for name, file in SEEDS.items():
            for way in WAYS:
                assert is_heard_or_refused(decoder.outcome(damaged(file, way, chance))), (name, way)
    assert server.children() == []  # each end was waited for, until its parent had seen it
    for process, was in zip((own, server), before, strict=True):
        assert process.memory_info().rss < was + MOST_GROWTH_BYTES, process.cmdline()
