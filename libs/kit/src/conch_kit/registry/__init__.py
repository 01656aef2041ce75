"""The registry: what the operator publishes in Redis, what its readers keep a copy of, and who is alive.

`snapshot`, `liveness` and `read_reply` decide; `snapshot_refresh`, `writer`, `name_reservations` and `heartbeat` act.
What gateways have to do is written by `load_writer` and followed by `load_reader`.
What must happen at once in Redis is in `scripts`. Only the operator may use `writer` and `name_reservations`.
"""
