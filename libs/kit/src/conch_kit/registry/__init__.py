"""The registry: what the operator publishes in Redis and every process keeps a copy of.

`snapshot` and `liveness` decide, `reader`, `writer` and `heartbeat` act; what must happen at once in Redis is in
`scripts`.
"""
