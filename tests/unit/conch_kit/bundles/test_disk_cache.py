import asyncio
import os
from pathlib import Path

import pytest

from conch_contracts.names import Digest
from conch_kit.bundles.archive import pack
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.errors import Unavailable
from conch_kit.redis.errors import RegistryUnavailable

DIGEST = Digest("0" * 64)


class FakeSource:
    """Holds one answer for every digest and counts who asks."""

    def __init__(self, answer: bytes | Exception | None) -> None:
        self.answer = answer
        self.asked = 0

    async def get(self, name: Digest, /) -> bytes | None:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def cache_of(source: FakeSource, folder: Path) -> BundleCache:
    return BundleCache(source, folder, lambda: None)


async def test_a_bundle_is_fetched_once_and_kept(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text("{}")
    digest, data = pack(model)
    source = FakeSource(data)
    cache = cache_of(source, tmp_path / "cache")
    folders = await asyncio.gather(*(cache.folder(digest) for _ in range(5)))
    assert source.asked == 1
    assert (folders[0] / "tokenizer.json").read_text() == "{}"
    source.answer = RegistryUnavailable("gone")
    assert await cache_of(source, tmp_path / "cache").folder(digest) == folders[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "does not hold it whole"),
        (RegistryUnavailable("away"), "does not answer"),
        (b"no bundle at all", "cannot be unpacked"),
    ],
)
async def test_a_bundle_that_cannot_be_had_may_come_later(
    answer: bytes | Exception | None, said: str, tmp_path: Path
) -> None:
    cache = cache_of(FakeSource(answer), tmp_path)
    with pytest.raises(Unavailable, match=said) as caught:
        await cache.folder(DIGEST)
    assert (caught.value.code, caught.value.retryable) == ("tokenizer_not_ready", True)
    assert caught.value.retry_after_s
    assert not os.listdir(tmp_path)


async def test_a_discarded_bundle_is_fetched_again(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text("{}")
    digest, data = pack(model)
    source = FakeSource(data)
    cache = cache_of(source, tmp_path / "cache")
    (await cache.folder(digest) / "tokenizer.json").write_text("broken")
    await cache.discard(digest)
    assert (await cache.folder(digest) / "tokenizer.json").read_text() == "{}"
    assert source.asked == 2


async def test_all_who_wait_for_a_bundle_that_cannot_be_had_learn_it_together(tmp_path: Path) -> None:
    source = FakeSource(RegistryUnavailable("away"))
    cache = cache_of(source, tmp_path)
    answers = await asyncio.gather(*(cache.folder(DIGEST) for _ in range(5)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 5
    assert source.asked == 1
    with pytest.raises(Unavailable):
        await cache.folder(DIGEST)
    assert source.asked == 2


async def test_one_who_gives_up_waiting_ends_nobody_elses_fetch(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text("{}")
    digest, data = pack(model)
    cache = cache_of(FakeSource(data), tmp_path / "cache")
    first, second = (asyncio.create_task(cache.folder(digest)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second / "tokenizer.json").is_file()
