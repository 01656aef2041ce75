"""Commands to Redis with a time-out and a breaker. Only `connection` imports hiredis; no key is named here."""
