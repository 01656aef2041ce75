"""Files that wait, in memory and on disk."""

import asyncio
import errno
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from conch_gateway.http.upload_spool import BLOCK_BYTES, MEMORY_BYTES, SHARED_MEMORY_BYTES, SpoolSpace, UploadSpool
from conch_kit.errors import InternalError, Unavailable
from testkit.waiting import eventually

LARGE = os.urandom(3 * MEMORY_BYTES + 12345)


async def filled(spool, content, step=100_000):
    for start in range(0, len(content), step):
        spool.add(content[start : start + step])
        await spool.settle()


async def read(spool):
    found = b""
    while len(found) < spool.size:
        piece = await spool.piece(len(found))
        assert 0 < len(piece) <= BLOCK_BYTES
        found += piece
    return found


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES + 1, MEMORY_BYTES - 1, MEMORY_BYTES, len(LARGE)])
async def test_a_file_can_be_read_as_often_as_it_is_sent(size):
    content = LARGE[:size]
    with UploadSpool(SpoolSpace(10**9)) as spool:
        await filled(spool, content)
        assert spool.size == size
        assert await read(spool) == content
        assert await read(spool) == content


async def test_a_small_file_takes_no_room_on_disk(tmp_path):
    space = SpoolSpace(0, str(tmp_path / "missing"))
    with UploadSpool(space) as spool:
        await filled(spool, LARGE[: MEMORY_BYTES - 1])
        assert space.used_bytes == 0


async def test_a_large_file_has_no_name_and_gives_its_room_back(tmp_path):
    space = SpoolSpace(10**9, str(tmp_path))
    with UploadSpool(space) as spool:
        await filled(spool, LARGE)
        assert len(LARGE) - space.used_bytes < BLOCK_BYTES
        assert list(tmp_path.iterdir()) == []
    assert space.used_bytes == 0
    with pytest.raises(InternalError):
        await spool.piece(0)


async def test_small_files_go_to_disk_too_where_there_are_many():
    space = SpoolSpace(10**9)
    with ExitStack() as stack:
        spools = [stack.enter_context(UploadSpool(space)) for _ in range(60)]
        for spool in spools:
            await filled(spool, LARGE[: MEMORY_BYTES - 1])
        assert space.memory_bytes <= SHARED_MEMORY_BYTES + len(spools) * BLOCK_BYTES
        assert space.used_bytes > 0
        for spool in (spools[0], spools[-1]):
            assert await read(spool) == LARGE[: MEMORY_BYTES - 1]
    assert (space.used_bytes, space.memory_bytes) == (0, 0)


async def test_an_upload_that_finds_no_room_is_refused_and_others_go_on():
    space = SpoolSpace(2 * MEMORY_BYTES + BLOCK_BYTES)
    with UploadSpool(space) as first, UploadSpool(space) as second:
        await filled(first, LARGE[: MEMORY_BYTES + 1])
        with pytest.raises(Unavailable) as caught:
            await filled(second, LARGE)
        assert caught.value.retry_after_s
        assert await read(first) == LARGE[: MEMORY_BYTES + 1]
    assert space.used_bytes == 0


@pytest.mark.parametrize("folder", ["/nowhere/at/all", "/proc"])
async def test_a_disk_that_takes_nothing_is_a_503(folder):
    with UploadSpool(SpoolSpace(10**9, folder)) as spool, pytest.raises(Unavailable):
        await filled(spool, LARGE)


async def test_a_full_disk_is_a_503():
    class FullFile:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    with UploadSpool(SpoolSpace(10**9)) as spool:
        spool._file = FullFile()
        with pytest.raises(Unavailable):
            await filled(spool, LARGE)


async def test_a_file_that_is_being_written_when_its_request_ends_is_closed_behind_that():
    class SlowFile:
        def __init__(self):
            self.goes_on, self.began, self.closed = threading.Event(), threading.Event(), False

        def write(self, data):
            self.began.set()
            assert self.goes_on.wait(60)
            assert not self.closed
            return len(data)

        def close(self):
            self.closed = True

    slow = SlowFile()

    async def upload():
        with UploadSpool(SpoolSpace(10**9)) as spool:
            spool._file = slow
            await filled(spool, LARGE)

    task = asyncio.create_task(upload())
    await eventually(slow.began.is_set, "the write")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not slow.closed
    slow.goes_on.set()
    await eventually(lambda: slow.closed, "the end of the file")


async def test_a_thread_that_comes_after_the_end_of_its_request_opens_no_file(tmp_path):
    class Late(ThreadPoolExecutor):
        """Takes work as begun, and does it when it is told to."""

        def submit(self, work, *given, **named):
            begun = Future()
            begun.set_running_or_notify_cancel()
            self.do = lambda: work(*given, **named)
            return begun

    with Late(1) as late:
        asyncio.get_running_loop().set_default_executor(late)
        spool = UploadSpool(SpoolSpace(10**9, str(tmp_path)))
        with spool:
            writing = asyncio.create_task(filled(spool, LARGE))
            await eventually(lambda: hasattr(late, "do"), "the write to begin")
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
        late.do()
        assert spool._file is None
