from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testkit.scaling_scene import Scene, scaling_scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scaling_scene(tmp_path) as scene:
        yield scene
