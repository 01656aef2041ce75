import asyncio
from typing import Any

import pytest

from conch_kit.settings import StartupError
from conch_tokenizer import process


async def test_a_service_whose_children_never_get_ready_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        async def wait_ready(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(process, "_START_TIMEOUT_S", 0.01)
    pool: Any = Pool()
    with pytest.raises(StartupError, match="No tokenizer child was ready"):
        await asyncio.wait_for(process._first_child(pool), 30)
