"""What a model takes beside text."""

from typing import Annotated

from pydantic import Field

from conch_contracts.spec.fields import Integer, SpecPart
from conch_contracts.spec.rule_types import matching

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
Domain = Annotated[
    str,
    Field(max_length=253),
    matching(
        rf"\*|(\*\.)?{_LABEL}(\.{_LABEL})*",
        "must be the name of a host in lower case such as pictures.example.com, *.example.com for all below one, or *",
    ),
]


class ImagesSpec(SpecPart):
    """What a model takes of pictures."""

    max: Annotated[Integer, Field(ge=0, le=256)] = 8
    """So many in one prompt; 0: none, though the model could see them. CLIP, which makes vectors of pictures, is shown
    one at a time. Default: 8."""
    max_pixels: Annotated[Integer, Field(ge=1, le=178_956_970)] = 33_000_000
    """Width times height of each, as it comes. Default: 33000000."""
    max_bytes: Annotated[Integer, Field(ge=1, le=100_000_000)] = 20_000_000
    """Of each file. A body has its own limit at the gateway. Default: 20000000."""
    allowed_domains: Annotated[tuple[Domain, ...], Field(max_length=64)] = ()
    """Hosts from which pictures are fetched that are named by URL: a name is that host alone, *.example.com all below
    it, and * every public one. Default: none, so pictures come in the request itself, as data: URLs."""


class MultimodalSpec(SpecPart):
    """What a model takes beside text."""

    images: ImagesSpec = ImagesSpec()
    """Pictures."""
