"""The models that are in one server now: each is a `PooledModel`, and is loaded and unloaded beside the others."""

import asyncio
from collections.abc import Callable, Collection

from conch_contracts.names import Digest
from conch_operator.engine_pools.pooled_model import Loadable, PooledModel
from conch_operator.engine_pools.shared_server import SharedServer
from conch_operator.state import ClusterEngine, EngineName

LOADS_AT_ONCE = 4
"""As many as Triton works on; more would wait inside it."""


class LoadedModels:
    """One server with the models that are in it now."""

    def __init__(self, server: SharedServer, changed: Callable[[], None]) -> None:
        self._server = server
        self._changed = changed
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._models: dict[EngineName, PooledModel] = {}

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

    async def end(self) -> None:
        """Forget all models; the server ends."""
        for model in self._models.values():
            await model.cancel()
        self._models = {}
