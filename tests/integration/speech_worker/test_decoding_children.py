"""The children that decode as processes: their bounds, their starts beside others' ends, and callers who go."""

import asyncio
import multiprocessing.process
import os
import resource
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import psutil
import pytest
import soundfile

from conch_contracts.messages.message import changed
from conch_kit.errors import InvalidRequest, Unavailable
from conch_speech_worker.audio.child_messages import DecodingLimits
from conch_speech_worker.audio.child_pool import DecodingChildren, _Descriptor, _run_child, fork_server_id
from conch_speech_worker.audio.decoded_sound import FORK_SERVER_LOST, DecodedSound
from testkit.waiting import eventually

LONG_S = 120.0
LIMITS = DecodingLimits(max_audio_s=LONG_S, memory_bytes=512 * 1024 * 1024, cpu_s=int(LONG_S), silence_s=LONG_S)
STARTS, STEP_S = 60, 0.0003
"""How often a start is cancelled, each time so much later than the last."""
MANY = 1_900_000
"""Samples of a file that no child ends before it is killed: many times what waits between it and its reader."""
WAITS_S = 0.5
"""How long the start of a child is held up."""


async def test_a_file_that_takes_too_much_memory_is_refused_by_the_child_itself() -> None:
    limits = DecodingLimits(max_audio_s=LONG_S, memory_bytes=512 * 1024, cpu_s=int(LONG_S), silence_s=LONG_S)
    with tempfile.TemporaryFile() as file:
        soundfile.write(file, np.zeros((320_000, 8), np.int16), 48_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children, children.decoding(file.fileno(), limits) as sound:
            with pytest.raises(InvalidRequest, match=r"it takes too much memory\."):
                await sound.read()


async def test_who_goes_while_a_child_starts_leaves_neither_it_nor_what_it_was_given() -> None:
    async def wait_for_ever(children: DecodingChildren, file: int) -> None:
        async with children.decoding(file, LIMITS):
            await asyncio.Event().wait()

    with tempfile.TemporaryFile() as file:
        soundfile.write(file, np.zeros(320_000, np.int16), 16_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children, children.decoding(file.fileno(), LIMITS) as sound:
            await sound.read()
            before, others = descriptors(), len(decoding())
            for number in range(STARTS):
                waiting = asyncio.create_task(wait_for_ever(children, file.fileno()))
                await asyncio.sleep(number * STEP_S)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting
                assert (descriptors(), len(decoding())) == (before, others), number


async def test_a_child_that_has_ended_takes_no_descriptor_whoever_remembers_it() -> None:
    with tempfile.TemporaryFile() as file:
        async with DecodingChildren() as children:
            others, before = set(multiprocessing.process._children), descriptors()
            async with children.decoding(file.fileno(), LIMITS):
                (child,) = multiprocessing.process._children - others
            assert descriptors() == before
            with pytest.raises(ValueError, match="closed"):
                child.is_alive()


async def test_a_child_has_bounds_and_dies_with_the_fork_server_and_another_goes_on() -> None:
    with tempfile.TemporaryFile() as file:
        soundfile.write(file, np.zeros(MANY, np.int16), 16_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children:
            others = set(multiprocessing.process._children)
            async with children.decoding(file.fileno(), LIMITS) as sound:
                read = len(await sound.read())  # it waits for room to write more
                (child,) = multiprocessing.process._children - others
                process = psutil.Process(child.pid)
                assert process.rlimit(psutil.RLIMIT_CPU) == (LIMITS.cpu_s, LIMITS.cpu_s + 1)
                assert process.rlimit(psutil.RLIMIT_FSIZE) == process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
                assert LIMITS.memory_bytes < process.rlimit(psutil.RLIMIT_AS)[1] < LIMITS.memory_bytes + 2 * 1024**3
                (server := psutil.Process(fork_server_id())).kill()
                await eventually(lambda: has_ended(server), "the fork server to end")
                assert read + await to_the_end(sound) == 2 * MANY
                assert fork_server_id() != server.pid
                await eventually(lambda: has_ended(process), "the child to end with its fork server")


async def test_a_fork_server_that_dies_over_a_start_is_replaced() -> None:
    with tempfile.TemporaryFile() as file:
        soundfile.write(file, np.zeros(MANY, np.int16), 16_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children:
            server = psutil.Process(fork_server_id())
            server.rlimit(psutil.RLIMIT_NOFILE, (0, 0))  # it cannot hear of the next child, and ends
            async with children.decoding(file.fileno(), LIMITS) as sound:
                assert await to_the_end(sound) == 2 * MANY
            assert fork_server_id() != server.pid


async def test_a_child_of_a_fork_server_that_came_in_between_is_no_fault_of_its_file() -> None:
    with tempfile.TemporaryFile() as file, socket.socket(socket.AF_UNIX) as wire:
        descriptors_of_child = (_Descriptor(file.fileno()), _Descriptor(wire.fileno()))
        context = multiprocessing.get_context("forkserver")
        child = context.Process(target=_run_child, args=(*descriptors_of_child, LIMITS, os.getpid()))
        child.start()
        await asyncio.to_thread(child.join, LONG_S)
        assert child.exitcode == FORK_SERVER_LOST


async def test_where_no_child_can_be_started_the_file_may_be_sent_again() -> None:
    with tempfile.TemporaryFile() as file:
        async with DecodingChildren() as children:
            with no_descriptor_left(), pytest.raises(Unavailable, match="send the file again"):
                async with children.decoding(file.fileno(), LIMITS):
                    pass


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Take all descriptors that this process may have."""
    bounds, taken = resource.getrlimit(resource.RLIMIT_NOFILE), list[int]()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, descriptors())) + 1, bounds[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, bounds)
        for each in taken:
            os.close(each)


async def test_a_child_that_is_killed_is_replaced_once() -> None:
    with tempfile.TemporaryFile() as file:
        samples = np.arange(MANY).astype(np.int16)
        soundfile.write(file, samples, 16_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children, children.decoding(file.fileno(), LIMITS) as sound:
            heard = await sound.read()
            (child,) = decoding()
            child.send_signal(signal.SIGKILL)
            while piece := await sound.read():
                heard += piece
            assert heard == samples.tobytes()
        async with DecodingChildren() as children, children.decoding(file.fileno(), LIMITS) as sound:
            with pytest.raises(Unavailable, match="send the file again"):
                await signalling_all(sound, signal.SIGKILL)


async def test_a_child_that_is_stopped_is_replaced_once() -> None:
    with tempfile.TemporaryFile() as file:
        samples = np.arange(MANY).astype(np.int16)
        soundfile.write(file, samples, 16_000, format="WAV")
        file.flush()
        limits = changed(LIMITS, silence_s=1.0)
        async with DecodingChildren() as children, children.decoding(file.fileno(), limits) as sound:
            heard = await sound.read()
            (child,) = decoding()
            child.send_signal(signal.SIGSTOP)
            while piece := await sound.read():
                heard += piece
            assert heard == samples.tobytes()
        async with DecodingChildren() as children, children.decoding(file.fileno(), limits) as sound:
            with pytest.raises(Unavailable, match="held up from outside"):
                await signalling_all(sound, signal.SIGSTOP)


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def to_the_end(sound: DecodedSound) -> int:
    """Read all that is left, and return how many bytes that are."""
    count = 0
    while samples := await sound.read():
        count += len(samples)
    return count


async def signalling_all(sound: DecodedSound, kind: signal.Signals) -> None:
    """Read to the end, and end or stop each child as soon as it has said something."""
    while await sound.read():
        for child in decoding():
            with suppress(psutil.NoSuchProcess):  # the last one may end just now
                child.send_signal(kind)


def decoding() -> list[psutil.Process]:
    """Return the children that decode; this process may have others for other tests."""
    return psutil.Process(fork_server_id()).children()


class SlowChild:
    """Stands among the children that multiprocessing looks at whenever it starts one; it comes first, and is slow."""

    def __init__(self) -> None:
        self.looked_at, self.goes_on = threading.Event(), threading.Event()
        self._popen = self

    def __hash__(self) -> int:
        return 0

    def poll(self) -> None:
        self.looked_at.set()
        self.goes_on.wait(WAITS_S)


async def test_a_child_starts_while_another_one_ends() -> None:
    slow = SlowChild()
    with tempfile.TemporaryFile() as file:
        async with DecodingChildren() as children:

            async def start() -> None:
                async with children.decoding(file.fileno(), LIMITS):
                    pass

            try:
                async with children.decoding(file.fileno(), LIMITS):
                    multiprocessing.process._children.add(slow)
                    starting = asyncio.create_task(start())
                    assert await asyncio.to_thread(slow.looked_at.wait, LONG_S)
                slow.goes_on.set()
                await starting
            finally:
                multiprocessing.process._children.discard(slow)


def descriptors() -> list[str]:
    """Return the open descriptors of this process."""
    return os.listdir("/proc/self/fd")
