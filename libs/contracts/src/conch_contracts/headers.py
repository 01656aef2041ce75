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

TRACEPARENT = "traceparent"
RETRY_AFTER = "retry-after"
