"""How requests for one model are admitted, placed and timed out."""

from typing import Annotated

from pydantic import Field

from conch_contracts.records import RoutingStrategy
from conch_contracts.spec.fields import Duration, Integer, SpecPart
from conch_contracts.spec.rule_types import rule


class QueueSpec(SpecPart):
    """The gateway's queue before the model's engines."""

    max: Annotated[Integer, Field(ge=1, le=100_000)] = 200
    """Requests that may wait for a free engine slot; one more is a 429. Default: 200."""
    wait: Duration = 30.0
    """The longest that a request waits there; after that it is a 503. Default: 30s."""


class RoutingSpec(SpecPart):
    """How requests reach the model's engines."""

    strategy: RoutingStrategy = RoutingStrategy.LEAST_LOAD
    """How the gateway chooses between engines; there is one way so far. Default: LeastLoad."""
    queue: QueueSpec = QueueSpec()
    """The queue before the engines."""
    timeout: Duration = 600.0
    """The longest that one request may take. Default: 10m."""
    first_token_timeout: Duration = 120.0
    """The longest wait for an engine's first token, or for what an encoder makes of one batch. Default: 120s."""
    inter_token_timeout: Duration = 30.0
    """The longest wait between two tokens. Default: 30s."""
    hold: Annotated[Integer, Field(ge=1, le=100_000)] | None = None
    """Where an autoscaler of yours sets `replicas`, to 0 too: requests that may wait at each gateway while there is no
    engine, for it to start one; one more is a 429. `scaling` has a `hold` of its own. Default: they get 503 at once."""

    @rule(
        # The API server checks the default of `routing` as well, before it has filled the fields in.
        cel="!has(self.timeout) || !has(self.queue) || "
        + " && ".join(
            f"(!has(self.{field}) || duration(self.{field}) <= duration(self.timeout)"
            f" || duration(self.{field}) == duration('{default}'))"
            for field, default in (("firstTokenTimeout", "120s"), ("interTokenTimeout", "30s"), ("queue.wait", "30s"))
        ),
        message="timeout ends the whole request, so firstTokenTimeout, interTokenTimeout and queue.wait must not be "
        "longer: raise timeout, or lower the other (their defaults end with a shorter timeout by themselves)",
    )
    def _parts_fit_the_whole(self) -> bool:
        parts = ((self.first_token_timeout, 120), (self.inter_token_timeout, 30), (self.queue.wait, 30))
        return all(part <= self.timeout or part == default for part, default in parts)
