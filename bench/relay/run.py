"""Sets the two relays up, measures them, and takes them down."""

from pathlib import Path

from bench.clients.remote import load_client
from bench.options import Effort
from bench.relay import rows
from bench.relay.measure import EVENTS_PER_S, RelayBench
from bench.relay.stack import relay_stack
from bench.report import Section


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure the gateway beside nginx."""
    async with (
        relay_stack(folder, EVENTS_PER_S) as built,
        load_client("bench.clients.http_load", (built.nginx_url,), "nginx", folder) as nginx,
        load_client("bench.clients.http_load", (built.gateway_url,), "gateway", folder) as gateway,
    ):
        figures = await RelayBench(nginx, gateway, built.roles, effort).measure()
        return (rows.section(*figures),)
