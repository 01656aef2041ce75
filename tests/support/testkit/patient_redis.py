"""A Redis client for tests that are not about its time-outs: it waits as long as a busy machine needs."""

from conch_kit.redis.client import RedisClient

_PATIENCE_S = 10.0


def patient_redis(url: str) -> RedisClient:
    """Return a client of this URL."""
    return RedisClient(url, connect_timeout_s=_PATIENCE_S, command_timeout_s=_PATIENCE_S)
