"""What a pool's runtime has made of models goes before the disk is full, and not of those that are in."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_operator.agent.graph_cache import CACHE, GraphCache

SIZE = 100
DISK = 10_000
BAR = 1_500


class Scene:
    """A server's container with what was made of models, on a disk that has so much free beside it."""

    def __init__(self, root: Path, free: int) -> None:
        self.free, self.root = free, root
        self.folder = root / CACHE[1:]
        self.inside: list[str] = []
        server: Any = SimpleNamespace(root=root)
        self._cache = GraphCache(server, self, self._disk)  # type: ignore[arg-type]

    @property
    def seen(self) -> list[Any]:
        return [SimpleNamespace(contract=SimpleNamespace(triton_model=name)) for name in self.inside]

    def _disk(self, folder: Path) -> tuple[int, int, int]:
        if not folder.is_dir():
            raise FileNotFoundError(folder)
        free = self.free - SIZE * len(list(folder.iterdir()))
        return DISK, DISK - free, free

    async def with_in(self, *names: str) -> list[str]:
        """Return of which models something is left, with these loaded."""
        self.inside = list(names)
        for name in names:
            (self.folder / name / "entry").mkdir(parents=True, exist_ok=True)
            (self.folder / name / "entry" / "model.onnx").write_bytes(b"x" * SIZE)
        await self._cache.trim()
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, BAR + 3 * SIZE)


async def test_what_was_used_longest_ago_goes_where_the_disk_is_nearly_full(scene: Scene) -> None:
    assert await scene.with_in("a", "b") == ["a", "b"]
    assert await scene.with_in("c") == ["a", "b", "c"]
    assert await scene.with_in("d") == ["b", "c", "d"]
    assert await scene.with_in("b", "c") == ["b", "c", "d"]
    assert await scene.with_in("e", "f") == ["c", "e", "f"]


async def test_nothing_goes_of_what_is_in(scene: Scene) -> None:
    assert await scene.with_in("a", "b", "c", "d", "e") == ["a", "b", "c", "d", "e"]


async def test_what_an_agent_before_it_has_left_goes_first(scene: Scene) -> None:
    for name in ("old", "older.going"):
        (scene.folder / name).mkdir(parents=True)
        (scene.folder / name / "model.onnx").write_bytes(b"x" * SIZE)
    assert await scene.with_in("a", "b", "c") == ["a", "b", "c"]


async def test_a_server_that_has_made_nothing_yet_is_left_alone(scene: Scene) -> None:
    cache: Any = scene._cache
    await cache.trim()
    assert not scene.folder.exists()
