"""Asks name servers, in threads of its own: one that says nothing holds up a thread, and nothing else."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from conch_contracts.forbidden_addresses import IpAddress
from conch_kit.addresses.rules import Resolution


class NameLookups:
    """The system's resolver; as a context it does not wait for lookups that hang."""

    def __init__(self, threads: int, *, search: bool) -> None:
        """Ask in so many threads.

        `search`: whether a name may be one of the machine's search list, as `triton.team` is on a cluster. Without it a
        name is asked for as it stands, with a dot behind it.
        """
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")
        self._end = "" if search else "."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, host: str) -> Resolution:
        """Return what a host stands for; raises OSError and UnicodeError."""
        if (address := _address(host)) is not None:
            return Resolution(host, host, (address,))
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)

    def _look_up(self, host: str) -> Resolution:
        rows = socket.getaddrinfo(f"{host}{self._end}", None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
        return read_resolution(host, rows)


def read_resolution(host: str, rows: Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]) -> Resolution:
    """Return what `getaddrinfo` said, asked for the canonical name."""
    addresses = sorted({ipaddress.ip_address(str(row[4][0]).split("%")[0]) for row in rows}, key=_order)
    canonical = next((row[3] for row in rows if row[3]), host)
    return Resolution(host, canonical, tuple(addresses))


def _address(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return None


def _order(address: IpAddress) -> tuple[int, int]:
    return address.version, int(address)
