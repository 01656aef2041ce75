"""Asks name servers, in threads of its own: one that says nothing holds up a thread, and nothing else."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from conch_kit.addresses.checker import read_resolution
from conch_kit.addresses.rules import Resolution
from conch_media.hosts import address_of


class NameLookups:
    """The system's resolver; a context, which does not wait for lookups that hang."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, host: str) -> Resolution:
        """Return what a host stands for; raises OSError and UnicodeError.

        A name is asked for as it stands, with a dot behind it: no search list of the machine makes another one of it.
        """
        if (address := address_of(host)) is not None:
            return Resolution(host, host, (address,))
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)


def _look_up(host: str) -> Resolution:
    rows = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    return read_resolution(host, rows)
