"""Sets the whole path up, measures it, and takes it down."""

from pathlib import Path

from bench.chain import rows
from bench.chain.measure import Bench
from bench.chain.stack import conch_up
from bench.clients.remote import load_client
from bench.options import Effort
from bench.report import Section


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure the whole path beside the direct client."""
    async with (
        conch_up(folder) as stack,
        load_client("bench.clients.direct_load", (stack.grpc, stack.engine_model), "direct", folder) as direct,
        load_client("bench.clients.http_load", (stack.url,), "conch", folder) as conch,
    ):
        return rows.sections(await Bench(direct, conch, stack.roles, effort).measure())
