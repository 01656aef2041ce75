"""What kopf watches for us. Its handlers only say that something has happened: rounds look for themselves.

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

from conch_contracts.names import MANAGED_BY_LABEL, MODEL_LABEL, OPERATOR
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, POD, Kind, Object

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
async def watching(
    changed: Callable[[], None],
    seen: Callable[[Object], None],
    namespaces: Sequence[str],
    owned_kinds: Sequence[Kind],
    stale_s: float,
) -> AsyncIterator[None]:
    """Call `changed` at every change of a ModelDeployment or of what is made for one, beside the body.

    `seen` gets every ModelDeployment that is there as a watch tells of it, so that it need wait for no round. A watch
    out of which nothing comes for `stale_s`, not even a bookmark, is opened again. Raises KopfHangs at its end.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    async def note_change(**_: Any) -> None:
        loop.call_soon_threadsafe(changed)

    async def note_model(event: Object, **_: Any) -> None:
        if event["type"] != "DELETED":
            loop.call_soon_threadsafe(seen, event["object"])
        loop.call_soon_threadsafe(changed)

    def run() -> None:
        while not stop.is_set():
            try:
                asyncio.run(
                    kopf.operator(
                        registry=_registry(note_change, note_model, owned_kinds),
                        settings=_settings(owned_kinds, stale_s),
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


def _registry(
    note_change: Callable[..., Any], note_model: Callable[..., Any], owned_kinds: Sequence[Kind]
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    kopf.on.event(*_place(MODEL_DEPLOYMENT), id="models_changed", registry=registry)(note_model)
    for kind in (*owned_kinds, POD):
        kopf.on.event(*_place(kind), id=f"{kind.plural}_changed", registry=registry)(note_change)
    return registry


def _settings(owned_kinds: Sequence[Kind], stale_s: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.exit_timeout = 1.0
    settings.networking.connect_timeout = 5.0
    settings.networking.request_timeout = LIST_S
    settings.watching.inactivity_timeout = stale_s
    for kind in owned_kinds:
        settings.watching.label_selectors[_place(kind)] = f"{MANAGED_BY_LABEL}={OPERATOR}"
    settings.watching.label_selectors[_place(POD)] = MODEL_LABEL
    return settings


def _place(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural
