"""The settings of the gateway process; each field is the variable `CONCH_<FIELD>`."""

from pathlib import Path

from pydantic import Field

from conch_contracts.names import GATEWAY_PORT
from conch_gateway.requests.template_policy import TEMPLATE_VARIABLES
from conch_kit.settings import Port, ServiceSettings


class GatewaySettings(ServiceSettings):
    """Settings of the gateway."""

    port: Port = GATEWAY_PORT
    """The public port."""
    api_keys_file: Path | None = None
    """File with one API key per line, re-read on change; without it every request is allowed."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API from a browser, `*` for all; default: none."""
    owned_by: str = "conch"
    """What `/v1/models` says in `owned_by`."""
    chat_templates: bool = False
    """Let requests bring a chat template of their own; it runs in the tokenizer's sandbox."""
    template_variables: tuple[str, ...] = TEMPLATE_VARIABLES
    """The names that requests may set in `chat_template_kwargs`."""
    openapi: bool = True
    """Serve `/openapi.json`; with API keys it needs one like everything else."""
    access_log: bool = True
    """Write one line per request to the standard output."""
    max_body_bytes: int = Field(default=10 * 1024 * 1024, ge=1024)
    """Larger request bodies are refused before they are parsed."""
    max_upload_bytes: int = Field(default=25 * 1024 * 1024, ge=1024)
    """Larger files are refused where a request brings one: 25 MiB, as OpenAI has it."""
    upload_timeout_s: float = Field(default=600.0, gt=0)
    """How long a client may take for a request with a file, as long as some of it comes within each
    `body_timeout_s`: 25 MiB in that time are 350 kbit/s."""
    upload_spool_bytes: int = Field(default=224 * 1024 * 1024, ge=1024)
    """The room on disk for files that arrive or wait for their worker, all together; one that finds none is a 503. Less
    than the 256 MiB that the chart gives a pod for temporary files."""
    max_header_bytes: int = Field(default=64 * 1024, ge=1024)
    """Larger heads of requests are refused; proxies send well under 16 KiB."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """How long a client may take for the head of a request, and may keep a new connection silent."""
    body_timeout_s: float = Field(default=30.0, gt=0)
    """How long a client may take for a whole body."""
    kept_connection_s: float = Field(default=3620.0, gt=0)
    """How long a connection may be without a request until it is closed. Longer than any proxy before it keeps one: a
    request that meets the close is the proxy's own 502."""
    keep_alive_s: float = Field(default=15.0, gt=0)
    """Silence after which a stream carries a comment, so that proxies do not hang up."""
    write_stall_s: float = Field(default=30.0, gt=0)
    """How long a client may leave its answer unread before the connection is dropped."""
    connect_timeout_s: float = Field(default=1.0, gt=0)
    """Connecting to a tokenizer or worker; another one is tried afterwards, or the same one when there is none."""
    hold_s: float = Field(default=55.0, gt=0)
    """How long a request that does not stream waits for an engine to start, below the minute after which proxies cut
    it; then it is a 503 that says when to come again."""
    hold_status_s: float = Field(default=5.0, gt=0)
    """How long a stream's status is held back while an engine starts."""
    hold_comment_s: float = Field(default=10.0, gt=0)
    """How often a stream is told that its engine starts."""
    hold_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """What the bodies and prompts of all requests may take that wait for engines to start; one more is a 429."""
    queue_bytes: int = Field(default=128 * 1024 * 1024, ge=1024)
    """What the bodies and prompts of all requests may take that wait for a free engine, or for a worker or tokenizer
    that is away; one more is a 429."""
    redis_timeout_s: float = Field(default=0.25, gt=0)
    """Connecting to Redis, or one short command; three that take longer make the gateway go on without it."""
    tokenizer_timeout_s: float = Field(default=8.0, gt=0)
    """Preparing one prompt; above the 2 s that a chat template may take and the 5 s of a text or picture together, so
    that the tokenizer itself says which of them took too long."""
    media_url: str = Field(default="", pattern=r"^(http://[^/@]+:[0-9]+)?$")
    """The process that fetches pictures by URL, as `http://host:port`; without it they come as `data:` URLs only."""
    worker_grace_s: float = Field(default=5.0, ge=0)
    """Workers keep the model's time-outs; the gateway steps in this much later, when the worker itself hangs."""
    background_responses: int = Field(default=256, ge=0)
    """How many answers of the Responses API are made in the background at once."""
    response_ttl_s: float = Field(default=86_400.0, ge=1)
    """How long an answer of the Responses API is kept for clients that come back to it: a day."""
    drain_delay_s: float = Field(default=0.0, ge=0)
    """How long `/health/ready` says no before the port closes, so that load balancers notice."""
