from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testkit.pool_scene import Scene, pool_scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with pool_scene(tmp_path) as scene:
        yield scene
