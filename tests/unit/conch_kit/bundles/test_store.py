"""What comes out of the store is what its digest says, or nothing."""

import pytest

from conch_contracts.names import Digest, bundle_key
from conch_kit.bundles.archive import BundleError, digest
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

DATA = b"a bundle"
NAME = digest(DATA)


class Redis:
    """Holds values; fails so many times first."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.values: dict[object, bytes] = {}
        self.failures = failures
        self.error = error

    async def execute(self, command: str, key: str, *value: bytes, timeout_s: float | None = None) -> bytes | None:
        if self.failures:
            self.failures -= 1
            raise RegistryUnavailable("away")
        if self.error is not None:
            raise self.error
        if command == "SET":
            self.values[key] = value[0]
        return self.values.get(key)


async def test_what_is_stored_comes_back_under_its_digest_alone() -> None:
    store = BundleStore(redis := Redis())  # type: ignore[arg-type]
    await store.put(NAME, DATA)
    assert await store.get(NAME) == DATA
    other = Digest("0" * 64)
    redis.values[bundle_key(other)] = DATA
    assert await store.get(other) is None
    redis.values[bundle_key(NAME)] = DATA + b" "
    assert await store.get(NAME) is None


async def test_what_does_not_fit_its_digest_is_not_stored() -> None:
    redis = Redis()
    with pytest.raises(BundleError, match="does not fit its digest"):
        await BundleStore(redis).put(Digest("0" * 64), DATA)  # type: ignore[arg-type]
    assert redis.values == {}


async def test_a_bundle_that_somebody_waits_for_is_asked_for_again_while_patience_lasts() -> None:
    redis = Redis(failures=2)
    redis.values[bundle_key(NAME)] = DATA
    assert await BundleStore(redis).get(NAME) == DATA  # type: ignore[arg-type]
    redis.failures = 2
    with pytest.raises(RegistryUnavailable):
        await BundleStore(redis, patience_s=0).get(NAME)  # type: ignore[arg-type]
    assert redis.failures == 1


async def test_what_redis_refuses_to_give_is_not_there() -> None:
    store = BundleStore(Redis(error=RegistryError("WRONGTYPE")))  # type: ignore[arg-type]
    assert await store.get(NAME) is None
    with pytest.raises(RegistryUnavailable, match="refuses the bundle"):
        await store.put(NAME, DATA)


async def test_a_bundle_that_is_too_large_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_kit.bundles.store.MAX_BUNDLE_BYTES", len(DATA) - 1)
    redis = Redis()
    with pytest.raises(BundleError, match=f"at most {len(DATA) - 1} are allowed"):
        await BundleStore(redis).put(NAME, DATA)  # type: ignore[arg-type]
    assert redis.values == {}


async def test_a_bundle_that_redis_does_not_have_is_none() -> None:
    assert await BundleStore(Redis()).get(NAME) is None  # type: ignore[arg-type]
