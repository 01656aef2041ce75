"""Decodes one file, in a child process that may be killed: descriptor in, frames of samples out.

Everything here blocks and none of it is trusted: libraries that read compressed sound have faults, and files grow by
hundreds when they are decoded. So a child has bounds on memory, on processor time and on what it may write, and its
parent believes nothing but samples and refusals.
"""

import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from conch_contracts.messages.message import to_json
from conch_kit import frames
from conch_speech_worker.audio import plain_files
from conch_speech_worker.audio.child_messages import ChildFrame, DecodingLimits
from conch_speech_worker.audio.file_bounds import FileRefused, SoundLength, broken
from conch_speech_worker.audio.file_format import READ_BY_ALL, FileFormat
from conch_speech_worker.audio.joined_files import parts_of

if _HAS_CONTAINERS := find_spec("av") is not None:  # the extra `containers`
    from conch_speech_worker.audio import containers

READABLE = tuple(FileFormat) if _HAS_CONTAINERS else READ_BY_ALL
"""What this installation reads."""


def decode_in_child(file: int, wire: socket.socket, limits: DecodingLimits) -> None:
    """Decode a file within limits and end; what is wrong with it is written as a refusal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(limits)
    with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
        try:
            for samples in samples_of(file, limits.max_audio_s):
                wire.sendall(frames.pack(ChildFrame.SAMPLES, samples.tobytes()))
            wire.sendall(frames.pack(ChildFrame.END))
        except FileRefused as refused:
            wire.sendall(frames.pack(ChildFrame.REFUSAL, to_json(refused.refusal)))
        except MemoryError:
            wire.sendall(frames.pack(ChildFrame.REFUSAL, to_json(broken("it takes too much memory").refusal)))


def samples_of(file: int, max_audio_s: float) -> Iterator[NDArray[np.int16]]:
    """Yield what is to be heard of an open file, mono at 16 kHz; raises FileRefused."""
    length = SoundLength(max_audio_s)
    for found, part in parts_of(file, READABLE, length):
        if found in READ_BY_ALL:
            yield from plain_files.samples_of(part, length)
        else:
            yield from containers.samples_of(part, found, length)
    length.check_end()


def _limit(limits: DecodingLimits) -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    memory_bytes = used + limits.memory_bytes
    bounds = {
        resource.RLIMIT_AS: (memory_bytes, memory_bytes),
        # At the first SIGXCPU ends it; at the second it would be SIGKILL, as of somebody else.
        resource.RLIMIT_CPU: (limits.cpu_s, limits.cpu_s + 1),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, soft_and_hard in bounds.items():
        resource.setrlimit(kind, soft_and_hard)
