"""Settings of one media process, read once from CONCH_* variables.

None of them lets it connect to an address that is not public.
"""

from pydantic import Field

from conch_contracts.names import SERVICE_PORT
from conch_kit.addresses.rules import Entry
from conch_kit.settings import Port, ServerSettings


class MediaSettings(ServerSettings):
    """What the media process can be told; it has no registry, so that who breaks into it gets none."""

    port: Port = SERVICE_PORT
    max_fetches: int = Field(default=16, ge=1, le=1024)
    """Pictures that are fetched at once; one more is refused. Each may take twice its bytes of memory."""
    max_bytes: int = Field(default=20_000_000, ge=1024)
    """Longest file, whatever the gateway asks for."""
    connect_timeout_s: float = Field(default=2.0, gt=0)
    """Connecting to one server, TLS included."""
    timeout_s: float = Field(default=5.0, gt=0)
    """One picture, from its name to its last byte."""
    refused_addresses: tuple[Entry, ...] = ()
    """Ranges and hosts that are refused although they are public: those of the cluster's own pods and Services."""
