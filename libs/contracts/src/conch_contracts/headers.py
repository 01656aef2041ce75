"""HTTP header names that the services exchange, in lower case as ASGI gives them."""

REQUEST_ID = "x-request-id"
"""In and out on every answer; chosen by the client or made by the gateway."""

INTERNAL_TOKEN = "x-conch-internal-token"
"""The secret that one release shares; guards the internal ports."""

RETRYABLE = "x-conch-retryable"
"""`true` on an error that another engine or worker may safely be asked again."""

USAGE = "x-conch-usage"
"""On a complete (not streamed) internal answer: the `Usage` record as JSON."""

USAGE_COMMENT = ": usage "
"""How the last SSE frame of an internal stream begins; the gateway reads and strips it."""

WORK_COMMENT = ": working"
"""A whole SSE comment of an internal stream: the engine goes on, though it has made nothing that the client sees.

The gateway takes it as a sign of life and strips it; clients of a gateway that does not know it yet skip it."""

RESPONSE_COMMENT = ": response "
"""How the end of an internal stream of the Responses API begins: the whole answer comes before its last event."""

CACHE = "x-conch-cache"
"""`hit` or `miss`, on answers of models that have a cache."""

MAX_WAIT = "x-conch-max-wait"
"""On a client's request: how many seconds it waits for an engine at most."""

COLD_START = "x-conch-cold-start"
"""On a stream that begins while an engine starts: in how many seconds the engine should be there, or `unknown`."""

LANE = "x-conch-lane"
"""On the 101 of a lane: its number in the tokenizer process that gave it."""

LANES = "x-conch-lanes"
"""On the 101 of a lane: how many a gateway should have there, one for each child."""

LEFT_BY_LANE = "x-conch-left-by-lane"
"""On a request that a lane ended over: the lane's number, a dot, the request's number on it."""

LANE_LACKS = "x-conch-lane-lacks"
"""On a request for which a lane's child had no tokenizer: the lane's number, a dot, the bundle's digest."""

TRACEPARENT = "traceparent"
RETRY_AFTER = "retry-after"
