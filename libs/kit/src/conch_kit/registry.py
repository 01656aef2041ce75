"""The registry: what the operator publishes in Redis and every other process keeps a copy of.

This is the front door; the parts live beside it. `snapshot` and `liveness` decide, `registry_reader`,
`registry_writer`, `heartbeat` and `bundle_store` act, `registry_scripts` holds what must happen at once in Redis.
"""

from conch_kit.bundle_store import BundleStore
from conch_kit.heartbeat import GatewayBeatWriter, HeartbeatWriter
from conch_kit.redis_client import RegistryUnavailable
from conch_kit.registry_reader import RegistryReader
from conch_kit.registry_writer import Fenced, RegistryWriter
from conch_kit.snapshot import Snapshot

__all__ = [
    "BundleStore",
    "Fenced",
    "GatewayBeatWriter",
    "HeartbeatWriter",
    "RegistryReader",
    "RegistryUnavailable",
    "RegistryWriter",
    "Snapshot",
]
