"""Sets the relays up, measures them, and takes them down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.clients.remote import load_client
from bench.options import Effort
from bench.peers import run as peers
from bench.peers.table import Peer
from bench.relay import rows
from bench.relay.measure import RelayBench
from bench.relay.stack import GATEWAY, RelayStack, relay_stack, second_gateway
from bench.report import Section

_CLIENT = "bench.clients.http_load"


async def sections(folder: Path, effort: Effort, chosen: Sequence[Peer] = ()) -> tuple[Section, ...]:
    """Measure the gateway beside nginx, two gateways beside one, and the chosen peers."""
    async with (
        relay_stack(folder) as built,
        load_client(_CLIENT, (built.nginx_url,), "nginx", folder) as nginx,
        load_client(_CLIENT, (built.gateway_url,), "gateway", folder) as gateway,
    ):
        bench = RelayBench(nginx, gateway, built.roles, effort)
        idle_mib = bench.resident_mib(GATEWAY)
        figures = await bench.measure()
        found = [
            rows.section(*figures, start_s=built.gateway_start_s, idle_mib=idle_mib),
            await _two_gateways(bench, built, folder),
        ]
        if chosen:
            found.append(await peers.section(bench, built, chosen, folder))
        return tuple(found)


async def _two_gateways(bench: RelayBench, built: RelayStack, folder: Path) -> Section:
    async with (
        second_gateway(built, folder) as second,
        load_client(_CLIENT, (built.gateway_url, second.url), "two-gateways", folder) as both,
    ):
        windows = await replace(bench, roles=built.roles_with(second.roots)).throughput(bench.gateway, both)
        return rows.shared_section(*windows)
