"""Connections to workers and tokenizers, as they are opened."""

import asyncio

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.connection_pool import ConnectionPool
from conch_gateway.upstream.port import ConnectTimedOut


async def test_a_machine_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", hang)
    async with ConnectionPool(connect_timeout_s=0.01) as pool:
        with pytest.raises(ConnectTimedOut, match=r"within 0\.01 s"):
            await asyncio.wait_for(pool.connect(WorkerUrl("http://w:1")), 30)
