"""What kopf tells of ModelDeployments, so that one that was just made gets its first word before any round.

Rounds read what they need elsewhere (`api/caching_client`): kopf does not say when it has told of everything that is
there, nor what went while it was not watching.

kopf keeps no state in objects: there are no handlers that need finalizers or annotations, and it posts no events. It
runs in a thread and an event loop of its own, as its documentation advises for an operator inside another application:
so it does not take over the process's signals, and what holds the Lease does not wait for it.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import kopf

from conch_operator.kubernetes.api.client import ENDS_AFTER
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Object

log = logging.getLogger(__name__)

STOP_S = 5.0
"""How long kopf may take to stop."""
AGAIN_S = 5.0
"""Until watching begins again after it has ended by itself."""
LIST_S = 30.0
"""How long the list that a watch begins with may take."""


class KopfHangs(Exception):
    """kopf did not stop in time; only the end of the process ends it."""


@asynccontextmanager
async def watching(seen: Callable[[Object], None], namespaces: Sequence[str], stale_s: float) -> AsyncIterator[None]:
    """Give `seen` every ModelDeployment that is there as a watch tells of it, beside the body.

    A watch out of which nothing comes for `stale_s`, not even a bookmark, is opened again. Raises KopfHangs at its end.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    async def note_model(event: Object, **_: Any) -> None:
        if event["type"] != "DELETED":
            loop.call_soon_threadsafe(seen, event["object"])

    def run() -> None:
        while not stop.is_set():
            try:
                asyncio.run(
                    kopf.operator(
                        registry=_registry(note_model),
                        settings=_settings(stale_s),
                        standalone=True,
                        clusterwide=not namespaces,
                        namespaces=namespaces,
                        stop_flag=stop,
                    )
                )
            except Exception:
                log.exception("Watching has ended because of an error; it begins again.")
            stop.wait(AGAIN_S)

    logging.getLogger("kopf").setLevel(logging.WARNING)  # it logs every event
    thread = threading.Thread(target=run, name="kopf", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, STOP_S)
        if thread.is_alive():
            raise KopfHangs(f"kopf did not stop within {STOP_S:g} s")


def _registry(note_model: Callable[..., Any]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    place = MODEL_DEPLOYMENT.group, MODEL_DEPLOYMENT.version, MODEL_DEPLOYMENT.plural
    kopf.on.event(*place, id="models_seen", registry=registry)(note_model)
    return registry


def _settings(stale_s: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.exit_timeout = 1.0
    settings.networking.connect_timeout = 5.0
    settings.networking.request_timeout = LIST_S
    settings.watching.server_timeout = max(1, int(stale_s * ENDS_AFTER))
    settings.watching.inactivity_timeout = stale_s
    return settings
