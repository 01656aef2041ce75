"""Commands to Redis with a time-out and a breaker. Only `connection` imports redis-py; no key is named here."""
