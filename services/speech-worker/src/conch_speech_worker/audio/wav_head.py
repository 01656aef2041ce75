"""The head of a wav: where its samples are, and what was written to a pipe, by a program that did not know the end."""

from dataclasses import dataclass
from typing import Literal

from conch_speech_worker.audio.file_heads import is_beginning
from conch_speech_worker.audio.file_part import FilePart

_UNKNOWN = b"\xff" * 4


@dataclass(frozen=True, slots=True)
class WavHead:
    """What the head of a wav says."""

    end: int | None
    """Where it ends; None where nobody knew."""
    unknown_from: int | None
    """Where samples begin that are said to be none, so that the library reads none of them."""


def wav_head(part: FilePart, at: int) -> WavHead:
    """Return what a wav says that begins here."""
    head = part.peek(at, 28)
    order: Literal["big", "little"] = "big" if head[:4] == b"RIFX" else "little"
    told = at + 8 + int.from_bytes(head[4:8], order)
    if head[:4] == b"RF64" and head[12:16] == b"ds64":
        return WavHead(at + 8 + int.from_bytes(head[20:28], "little"), None)
    chunk_at = at + 12
    while len(chunk := part.peek(chunk_at, 8)) == 8:
        start, size = chunk_at + 8, int.from_bytes(chunk[4:], order)
        if chunk[:4] != b"data":
            chunk_at = start + size + size % 2
        elif size:
            return WavHead(max(told, start + size), None)
        elif start >= part.size or is_beginning(part, start) or (told > start and part.peek(start, 4).isalnum()):
            break
        else:
            return WavHead(None, start)
    return WavHead(told, None)


def with_known_samples(part: FilePart) -> FilePart:
    """Return a wav as the library reads all of it."""
    start = wav_head(part, 0).unknown_from
    return part if start is None else part.part(start, part.size, before=part.peek(0, start - 4) + _UNKNOWN)
