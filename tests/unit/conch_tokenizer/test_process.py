import asyncio
from typing import Any

import pytest

from conch_kit.settings import StartupError
from conch_tokenizer import process
from conch_tokenizer.settings import TokenizerSettings


async def test_a_service_whose_children_never_get_ready_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        async def wait_ready(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(process, "_START_TIMEOUT_S", 0.01)
    pool: Any = Pool()
    with pytest.raises(StartupError, match="No tokenizer child was ready"):
        await asyncio.wait_for(process._first_child(pool), 30)


@pytest.mark.parametrize(("children", "sizes"), [(1, (1, 1, 1)), (2, (2, 1, 1)), (8, (8, 7, 1))])
def test_large_requests_and_grammars_have_a_child_of_their_own(children: int, sizes: tuple[int, int, int]) -> None:
    assert process._sizes(TokenizerSettings(redis_url="redis://unused", children=children)) == sizes
