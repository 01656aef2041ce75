"""Messages between gateway and the media process, which alone may fetch what clients name by URL.

The answer is the file itself, or an error.
"""

from typing import Final

from conch_contracts.messages.message import Message

MOST_URL_BYTES: Final = 8 * 1024
"""As many as servers and proxies take of one; longer ones are refused wherever they are seen."""


class FetchPictureRequest(Message, frozen=True, kw_only=True):
    """One picture to fetch."""

    url: str
    """As the client wrote it."""
    allowed_domains: tuple[str, ...]
    """Hosts that the model allows, see `PictureProfile.allowed_domains`; none: nothing is fetched."""
    max_bytes: int = 20_000_000
    """Of the file; the media process may take less."""
    param: str
    """What the client calls the picture: an error names it."""
    timeout_s: float = 5.0
    """How long the caller waits; the media process may give up sooner."""
