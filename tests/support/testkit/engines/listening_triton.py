"""A client whose engines take every connection; what they answer is said by whoever is made of it."""

from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient


class ListeningTriton(TritonClient):
    """Finds a listening server at every address."""

    async def reach(self, address: EngineAddress, *, timeout_s: float = 2.0) -> None:
        """Return at once."""
