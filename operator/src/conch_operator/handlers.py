"""What kopf watches for us. Its handlers only say that something has happened: rounds look for themselves.

kopf keeps no state in objects: there are no handlers that need finalizers or annotations, and it posts no events.
It runs in a thread of its own, because it would take over the process's signals, and because a watch that hangs must
not stop what holds the Lease.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import kopf

from conch_contracts.names import GROUP, MANAGED_BY_LABEL, MODEL_LABEL, OPERATOR, PLURAL, VERSION
from conch_operator.kubernetes.kinds import POD, Kind, Object

log = logging.getLogger(__name__)

Told = Callable[[Object | None], None]
"""Learns that something has happened; gets the object when it is a ModelDeployment that is there."""

STOP_S = 5.0
"""How long kopf may take to stop."""


class KopfHangs(Exception):
    """kopf did not stop in time; only the end of the process ends it."""


@asynccontextmanager
async def watching(told: Told, namespaces: Sequence[str], children: Sequence[Kind]) -> AsyncIterator[None]:
    """Watch ModelDeployments and all that is made for them, beside the body; raises KopfHangs at its end."""
    loop = asyncio.get_running_loop()
    stop, ended = threading.Event(), asyncio.Event()

    def tell(item: Object | None) -> None:
        loop.call_soon_threadsafe(told, item)

    def run() -> None:
        try:
            asyncio.run(_watch(tell, namespaces, children, stop))
        except Exception:
            log.exception("Watching has ended because of an error.")
        finally:
            loop.call_soon_threadsafe(ended.set)

    logging.getLogger("kopf").setLevel(logging.WARNING)  # it logs every event
    threading.Thread(target=run, name="kopf", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        try:
            await asyncio.wait_for(ended.wait(), STOP_S)
        except TimeoutError as error:
            raise KopfHangs(f"kopf did not stop within {STOP_S:g} s") from error


async def _watch(told: Told, namespaces: Sequence[str], children: Sequence[Kind], stop: threading.Event) -> None:
    await kopf.operator(
        registry=_registry(told, children),
        settings=_settings(children),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )


def _registry(told: Told, children: Sequence[Kind]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    def model_changed(event: Mapping[str, Any], **_: Any) -> None:
        told(None if event["type"] == "DELETED" else dict(event["object"]))

    def child_changed(**_: Any) -> None:
        told(None)

    for kind in (*children, POD):
        kopf.on.event(*_place(kind), id=f"{kind.plural}_changed", registry=registry)(child_changed)
    return registry


def _settings(children: Sequence[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.exit_timeout = 1.0
    settings.networking.connect_timeout = 5.0
    for kind in children:
        settings.watching.label_selectors[_place(kind)] = f"{MANAGED_BY_LABEL}={OPERATOR}"
    settings.watching.label_selectors[_place(POD)] = MODEL_LABEL
    return settings


def _place(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural
