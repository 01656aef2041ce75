"""The queues of a gateway that serves one model, without its process."""

import asyncio

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.placement.admission import Admission
from testkit.gateway.fakes import snapshot


def engine(name: str, slots: int = 1) -> Engine:
    """Return an engine of the model."""
    return Engine(grpc=EngineAddress(name), slots=slots)


def admission(*engines: Engine) -> Admission:
    """Return the queues of a gateway that knows these engines."""
    made = Admission()
    made.apply(snapshot(engines=engines))
    return made


async def turns() -> None:
    """Let whatever can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)
