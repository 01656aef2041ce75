"""The media process's collaborators, built and taken down in order."""

import ssl
from contextlib import closing
from functools import partial

from conch_contracts.names import FETCH_PICTURE_PATH
from conch_kit import metrics
from conch_kit.addresses.name_lookups import NameLookups
from conch_kit.addresses.rules import AddressRules, Resolution
from conch_kit.http.admin import Health
from conch_kit.http.internal_app import internal_app
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.service.serve import serve
from conch_kit.tracing import tracer
from conch_media.handler import FetchHandler
from conch_media.metrics import MediaMetrics
from conch_media.picture_fetcher import FetchLimits, PictureFetcher
from conch_media.settings import MediaSettings

_LOOKUPS = 4
"""Threads for lookups to one fetch: those of fetches that were given up may still hang."""
_NOBODY = ""
"""The namespace of a client: it has no Services of its own."""


async def serve_media(settings: MediaSettings) -> None:
    """Serve until told to stop."""
    with (
        closing(tracer("conch-media", settings.otlp_endpoint)) as spans,
        NameLookups(settings.max_fetches * _LOOKUPS, search=False) as lookups,
    ):
        registry = metrics.registry()
        limits = FetchLimits(settings.max_bytes, settings.connect_timeout_s, settings.timeout_s)
        why_refused = partial(why_not_public, AddressRules(refused=settings.refused_addresses))
        fetcher = PictureFetcher(lookups, why_refused, ssl.create_default_context(), limits)
        own = MediaMetrics.register(registry)
        handler = FetchHandler(fetcher, InFlightRequests(), own, settings.max_fetches)
        await serve(
            internal_app({FETCH_PICTURE_PATH: handler}, settings.internal_token, spans),
            settings,
            health=Health(live=lambda: True, ready=lambda: None),
            metrics=registry,
        )


def why_not_public(rules: AddressRules, found: Resolution) -> str | None:
    """Return why a client may not have a host connected to; None where it may."""
    return rules.why_refused(found, _NOBODY, frozenset())
