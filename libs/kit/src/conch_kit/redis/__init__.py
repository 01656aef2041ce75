"""Commands to Redis with a time-out and a breaker; only `connection` imports redis-py, and no key stands here."""
