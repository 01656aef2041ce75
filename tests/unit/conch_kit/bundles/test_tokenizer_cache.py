import asyncio
from pathlib import Path

import pytest

from conch_contracts.names import Digest
from conch_kit.bundles.archive import pack
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.bundles.tokenizer_cache import TokenizerCache
from conch_kit.errors import InternalError, Unavailable
from conch_kit.metric_families import GaugeValue
from conch_kit.redis.errors import RegistryUnavailable
from conch_llm_worker.text.vocabulary import Vocabulary
from testkit.models.vocabularies import byte_level_tokenizer


class Bundles:
    """A store that counts, and may be away."""

    def __init__(self, content: dict[Digest, bytes]) -> None:
        self.content = content
        self.asked: list[Digest] = []
        self.away = False

    async def get(self, name: Digest) -> bytes | None:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.away:
            raise RegistryUnavailable("away")
        return self.content.get(name)


def bundle(folder: Path, text: str) -> tuple[Digest, bytes]:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(text)
    return pack(folder)


@pytest.fixture
def good(tmp_path: Path) -> tuple[Digest, Bundles]:
    digest, data = bundle(tmp_path / "good", byte_level_tokenizer().to_str())
    return digest, Bundles({digest: data})


def cache(bundles: Bundles, folder: Path, size: int = 8) -> TokenizerCache[Vocabulary]:
    return TokenizerCache(BundleCache(bundles, folder), Vocabulary.from_json, GaugeValue(), size)


async def test_many_requests_at_once_load_a_bundle_once(good: tuple[Digest, Bundles], tmp_path: Path) -> None:
    digest, bundles = good
    vocabularies = cache(bundles, tmp_path / "cache")
    found = await asyncio.gather(*(vocabularies.get(digest) for _ in range(5)))
    assert len(set(map(id, found))) == 1
    assert bundles.asked == [digest]


async def test_what_was_used_before_works_without_the_store_after_a_restart_too(
    good: tuple[Digest, Bundles], tmp_path: Path
) -> None:
    digest, bundles = good
    first = cache(bundles, tmp_path / "cache")
    await first.get(digest)
    bundles.away = True
    await first.get(digest)
    assert (await cache(bundles, tmp_path / "cache").get(digest)).token_bytes(0x41) == b"A"


async def test_a_broken_disk_cache_is_made_again(good: tuple[Digest, Bundles], tmp_path: Path) -> None:
    digest, bundles = good
    await cache(bundles, tmp_path / "cache").get(digest)
    (tmp_path / "cache" / digest / "tokenizer.json").write_text("{")
    await cache(bundles, tmp_path / "cache").get(digest)
    assert bundles.asked == [digest, digest]


@pytest.mark.parametrize("away", [True, False])
async def test_a_bundle_that_cannot_be_had_now_may_be_tried_elsewhere(tmp_path: Path, away: bool) -> None:
    bundles = Bundles({})
    bundles.away = away
    with pytest.raises(Unavailable) as refusal:
        await cache(bundles, tmp_path / "cache").get(Digest("0" * 64))
    assert (refusal.value.code, refusal.value.retryable) == ("tokenizer_not_ready", True)


async def test_a_bundle_without_a_tokenizer_is_our_fault(tmp_path: Path) -> None:
    digest, data = bundle(tmp_path / "bad", "{}")
    with pytest.raises(InternalError):
        await cache(Bundles({digest: data}), tmp_path / "cache").get(digest)


async def test_the_least_recently_used_leaves_memory_first(good: tuple[Digest, Bundles], tmp_path: Path) -> None:
    digest, bundles = good
    text = byte_level_tokenizer().to_str()
    other, data = bundle(tmp_path / "other", text + " ")
    bundles.content[other] = data
    vocabularies = cache(bundles, tmp_path / "cache", size=1)
    first = await vocabularies.get(digest)
    await vocabularies.get(other)
    assert await vocabularies.get(digest) is not first
