"""The registry: what the operator publishes in Redis, what its readers keep a copy of, and who is alive.

`snapshot`, `liveness` and `read_reply` decide; `snapshot_refresh`, `writer`, `name_reservations` and `heartbeat` act.
What gateways have to do is written by `load_writer` and followed by `load_reader`; which models somebody wants awake is
read by `woken_models`. What must happen at once in Redis is in `scripts`. Only the operator may use `writer`,
`name_reservations` and `woken_models`.
"""
