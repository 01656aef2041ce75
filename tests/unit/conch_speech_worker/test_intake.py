import errno
import io
import tempfile
from functools import partial

import pytest

from conch_contracts.messages.transcription import head_of
from conch_kit.errors import BodyTooLarge, InvalidRequest, Unavailable
from conch_kit.http.asgi import ClientGone
from conch_speech_worker.intake import IntakeLimits, taken
from testkit.builders.transcriptions import transcribe_request

FILE = bytes(range(256)) * 4
BODY = head_of(transcribe_request(file_bytes=len(FILE))) + FILE
LIMITS = IntakeLimits(message_bytes=2000, file_bytes=2000)


def receiving(data: bytes, piece: int, *, whole: bool = True):
    """Return the `receive` of a body that comes in pieces; unless it is whole its caller goes in the middle."""
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)] or [b""]

    async def receive():
        if not pieces:
            return {"type": "http.disconnect"}
        body = pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(pieces) or not whole}

    return receive


class SmallDisk(io.BytesIO):
    """A file on a disk with so much room: like a system's, it takes what has room of the last piece."""

    def __init__(self, room: int, buffering: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data):
        fits = memoryview(data)[: self._room]
        if not fits:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= len(fits)
        return super().write(fits)


@pytest.mark.parametrize("piece", [1, 3, 500, 10_000])
async def test_a_body_is_a_message_and_a_file_however_it_comes(piece):
    async with taken(receiving(BODY, piece), LIMITS) as given:
        given.file.seek(0)
        assert (given.request.request_id, given.file.read()) == ("r1", FILE)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", InvalidRequest),
        (BODY[:100], InvalidRequest),
        (BODY[:-1], InvalidRequest),
        (BODY + b"x", InvalidRequest),
        (b"\0\0\0\2{}" + FILE, InvalidRequest),
        (b"\xff\xff\xff\xff" + FILE, BodyTooLarge),
        (head_of(transcribe_request(file_bytes=2001)) + bytes(2001), BodyTooLarge),
    ],
)
async def test_any_other_body_is_refused(data, error):
    with pytest.raises(error):
        async with taken(receiving(data, 64), LIMITS):
            pass


@pytest.mark.parametrize("room", [0, len(FILE) - 1])
async def test_a_full_disk_is_told_as_a_fault_of_this_worker_alone(monkeypatch, room):
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(SmallDisk, room))
    with pytest.raises(Unavailable) as refused:
        async with taken(receiving(BODY, 10_000), LIMITS):
            pass
    assert (refused.value.code, refused.value.retryable) == ("worker_storage_full", True)


async def test_a_caller_who_goes_in_the_middle_is_noticed():
    with pytest.raises(ClientGone):
        async with taken(receiving(BODY[:-1], 64, whole=False), LIMITS):
            pass
