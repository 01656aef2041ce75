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
from dataclasses import dataclass
from typing import Any

import kopf

from conch_contracts.names import GROUP, MANAGED_BY_LABEL, MODEL_LABEL, OPERATOR, PLURAL, VERSION
from conch_operator.kubernetes.api.kinds import POD, Kind, Object
from conch_operator.kubernetes.watch.health import WatchHealth
from conch_operator.kubernetes.watch.session import listening_session

log = logging.getLogger(__name__)

STOP_S = 5.0
"""How long kopf may take to stop."""
AGAIN_S = 5.0
"""Until watching begins again after it has ended by itself."""


class KopfHangs(Exception):
    """kopf did not stop in time; only the end of the process ends it."""


@dataclass(frozen=True, slots=True)
class Ears:
    """Who learns what the watches tell."""

    changed: Callable[[], None]
    """Something has happened."""
    health: WatchHealth


@asynccontextmanager
async def watching(ears: Ears, namespaces: Sequence[str], children: Sequence[Kind]) -> AsyncIterator[None]:
    """Watch ModelDeployments and all that is made for them, beside the body; raises KopfHangs at its end."""
    loop = asyncio.get_running_loop()
    stop, ended = threading.Event(), asyncio.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                asyncio.run(_watch(_Teller(ears, loop), namespaces, children, stop))
            except Exception:
                log.exception("Watching has ended because of an error; it begins again.")
            loop.call_soon_threadsafe(ears.health.ended)
            stop.wait(AGAIN_S)
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


class _Teller:
    """Brings what kopf's thread learns to the loop of everything else."""

    def __init__(self, ears: Ears, loop: asyncio.AbstractEventLoop) -> None:
        self._ears = ears
        self._loop = loop

    def model(self, item: Object | None) -> None:
        """Tell of a ModelDeployment that is there; None: of one that has gone."""
        if item is not None:
            self._loop.call_soon_threadsafe(self._ears.health.told, item)
        self.changed()

    def changed(self) -> None:
        """Tell that something has happened."""
        self._loop.call_soon_threadsafe(self._ears.changed)

    def opened(self, watch: str) -> None:
        """Tell that a watch is being opened."""
        self._loop.call_soon_threadsafe(self._ears.health.opened, watch)

    def closed(self, watch: str) -> None:
        """Tell that a watch was closed."""
        self._loop.call_soon_threadsafe(self._ears.health.closed, watch)

    def heard(self, watch: str) -> None:
        """Tell that something came out of a watch."""
        self._loop.call_soon_threadsafe(self._ears.health.heard, watch)


async def _watch(tell: _Teller, namespaces: Sequence[str], children: Sequence[Kind], stop: threading.Event) -> None:
    await kopf.operator(
        registry=_registry(tell, children),
        settings=_settings(children),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )


def _registry(tell: _Teller, children: Sequence[Kind]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**kwargs: Any) -> kopf.AiohttpSession | None:
        access = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
        return listening_session(access, tell) if access else None

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    def model_changed(event: Mapping[str, Any], **_: Any) -> None:
        tell.model(None if event["type"] == "DELETED" else dict(event["object"]))

    def child_changed(**_: Any) -> None:
        tell.changed()

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
