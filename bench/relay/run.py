"""Sets the two relays up, measures them, and takes them down."""

from pathlib import Path

from bench.clients.remote import load_client
from bench.options import Effort
from bench.relay import rows
from bench.relay.measure import RelayBench
from bench.relay.stack import GATEWAY, relay_stack
from bench.report import Section


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure the gateway beside nginx."""
    async with (
        relay_stack(folder) as built,
        load_client("bench.clients.http_load", (built.nginx_url,), "nginx", folder) as nginx,
        load_client("bench.clients.http_load", (built.gateway_url,), "gateway", folder) as gateway,
    ):
        bench = RelayBench(nginx, gateway, built.roles, effort)
        idle_mib = bench.resident_mib(GATEWAY)
        figures = await bench.measure()
        return (rows.section(*figures, start_s=built.gateway_start_s, idle_mib=idle_mib),)
