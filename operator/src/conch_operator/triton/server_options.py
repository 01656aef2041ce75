"""Options of tritonserver that every engine gets, on a laptop and on a cluster."""

from collections.abc import Mapping

KEEPALIVE: Mapping[str, object] = {
    # The server notices a client that vanished, and lets clients ask whether it is there every 5 s.
    "grpc-keepalive-time": 10_000,
    "grpc-keepalive-timeout": 5_000,
    "grpc-keepalive-permit-without-calls": 1,
    "grpc-http2-max-pings-without-data": 0,
    "grpc-http2-min-recv-ping-interval-without-data": 5_000,
}
