"""The models that are in one server now: each is a `PooledModel`, and is loaded and unloaded beside the others."""

import asyncio
import logging
from collections.abc import Callable, Collection

from conch_contracts.names import Digest
from conch_kit.side_by_side import end, together
from conch_operator.engine_pools.pooled_model import Loadable, PooledModel
from conch_operator.engine_pools.shared_server import POLL_S, SharedServer
from conch_operator.state import ClusterEngine, EngineName

log = logging.getLogger(__name__)

LOADS_AT_ONCE = 4
"""As many as Triton works on; more would wait inside it."""
_MEASURE_S = 10.0


class LoadedModels:
    """One server with the models that are in it now."""

    def __init__(self, server: SharedServer, changed: Callable[[], None]) -> None:
        self._server = server
        self._changed = changed
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._models: dict[EngineName, PooledModel] = {}
        self._following: asyncio.Task[None] | None = None
        """Runs while there are models."""

    @property
    def names(self) -> Collection[EngineName]:
        """Return those of which something is there, or is to come."""
        return self._models.keys()

    @property
    def seen(self) -> tuple[ClusterEngine, ...]:
        """Return each as an engine of the cluster."""
        return tuple(model.seen for model in self._models.values())

    def tokenizer_of(self, name: EngineName) -> Digest | None:
        """Return the tokenizer of the folder that a model was loaded from; None for one that is not there."""
        return self._models[name].loadable.tokenizer if name in self._models else None

    def load(self, loadable: Loadable) -> None:
        """Have a model loaded, unless it is there."""
        if loadable.name not in self._models:
            named = loadable.contract.triton_model
            before = [one for one in self._models.values() if one.loadable.contract.triton_model == named]
            self._models[loadable.name] = PooledModel(loadable, self._server, self._loads, self._changed, before)
            if self._following is None:
                self._following = asyncio.create_task(self._follow())

    def restart(self, name: EngineName) -> None:
        """Have a model unloaded and loaded again, if it is there."""
        if name in self._models:
            self._models[name].restart()

    def stop(self, name: EngineName) -> None:
        """Have a model unloaded, if it is there."""
        if name in self._models:
            self._models[name].stop()

    def forget_gone(self) -> None:
        """Forget the models of which nothing is left."""
        self._models = {name: model for name, model in self._models.items() if not model.gone}
        if not self._models and self._following is not None:
            self._following.cancel()
            self._following = None

    async def end(self) -> None:
        """Forget all models; the server ends."""
        for model in self._models.values():
            await model.cancel()
        self._models = {}
        if self._following is not None:
            await end(self._following)
            self._following = None

    async def _follow(self) -> None:
        """Look at the server for all models together: what one look costs grows with the machine's processes."""
        await together(self._tell_of_ends(), self._tell_sizes())

    async def _tell_of_ends(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            for model in self._models.values():
                model.look()

    async def _tell_sizes(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_S)
            if not any(model.runs for model in self._models.values()):
                continue
            try:
                sizes = await self._server.sizes()
                for model in self._models.values():
                    model.measured(sizes)
                await self._server.end_when_large()
            except Exception:  # the models go on with the sizes that they have
                log.exception("The models of a server were not measured by a fault of Conch.")
