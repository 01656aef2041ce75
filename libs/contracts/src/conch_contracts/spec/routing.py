"""How requests for one model are admitted, placed and timed out."""

from typing import Annotated

from pydantic import Field

from conch_contracts.records import RoutingStrategy
from conch_contracts.spec.fields import Duration, Integer, SpecPart


class QueueSpec(SpecPart):
    """The gateway's queue before the model's engines."""

    max: Annotated[Integer, Field(ge=1, le=100_000)] = 200
    """Requests that may wait for a free engine slot; one more is a 429. Default: 200."""
    wait: Duration = 30.0
    """The longest that a request waits there; after that it is a 503. Default: 30s."""


class RoutingSpec(SpecPart):
    """How requests reach the model's engines."""

    strategy: RoutingStrategy = RoutingStrategy.LEAST_LOAD
    """How the gateway chooses between engines. Default: LeastLoad."""
    queue: QueueSpec = QueueSpec()
    """The queue before the engines."""
    timeout: Duration = 600.0
    """The longest that one request may take. Default: 10m."""
    first_token_timeout: Duration = 120.0
    """The longest wait for an engine's first token, or for what an encoder makes of one batch. Default: 120s."""
    inter_token_timeout: Duration = 30.0
    """The longest wait between two tokens. Default: 30s."""
