"""The `Cluster` port on this machine: Triton servers on free ports of 127.0.0.1, one for each engine and each pool."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.names import Digest, EngineAddress, PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_kit.triton.client import TritonClient
from conch_operator.engine_pools.loaded_models import LoadedModels
from conch_operator.engine_pools.pooled_model import Loadable
from conch_operator.engine_pools.shared_server import SharedServer
from conch_operator.local.orphan_guard import remove_shared_memory
from conch_operator.local.ports import all_free, free_ports
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Command, LaunchError, RestartPolicy, SupervisedProcess, Supervisor
from conch_operator.local.tritonserver import (
    TritonInstallation,
    TritonLaunch,
    TritonPorts,
    new_shm_prefix,
    triton_arguments,
    triton_environment,
)
from conch_operator.reconcile.plan import Acted, Plan
from conch_operator.reconcile.recipe_files import repository_files
from conch_operator.state import ClusterEngine, EngineComponent, EngineName
from conch_operator.triton.repository_writing import write_repository

LONGEST_PAUSE_S = 30.0
"""Between two starts of an engine that ends again and again, a model that cannot be loaded for instance."""

GRACE_S = 125.0
"""How long an engine may finish its streams when it is replaced."""

LAST_GRACE_S = 3.0
"""How long it may take to end with everything else, when the gateway has drained."""


@dataclass(frozen=True, slots=True)
class EngineServer:
    """The installed server, and the environment that processes get."""

    triton: TritonInstallation
    environment: Mapping[str, str]


class _Ports:
    """The ports of one server: the same at each of its starts, unless somebody else has taken one meanwhile."""

    def __init__(self) -> None:
        self._ports = TritonPorts(*free_ports(3))

    def at_start(self) -> TritonPorts:
        """Return the ports for the start that comes."""
        if not all_free((self._ports.http, self._ports.grpc, self._ports.metrics)):
            self._ports = TritonPorts(*free_ports(3))
        return self._ports

    def grpc(self) -> EngineAddress:
        """Return where the server is asked since its last start."""
        return EngineAddress(f"127.0.0.1:{self._ports.grpc}")


@dataclass(frozen=True, slots=True)
class _LocalEngine:
    component: EngineComponent
    process: SupervisedProcess
    ports: _Ports


@dataclass(frozen=True, slots=True)
class _LocalPool:
    process: SupervisedProcess
    models: LoadedModels


class LocalEngines:
    """Runs engines as processes, or in those of pools."""

    def __init__(
        self,
        supervisor: Supervisor,
        state: StateFolder,
        server: EngineServer,
        triton: TritonClient,
        changed: Callable[[], None],
    ) -> None:
        self._supervisor = supervisor
        self._state = state
        self._server = server
        self._triton = triton
        self._changed = changed
        self._engines: dict[EngineName, _LocalEngine] = {}
        self._pools: dict[PoolId, _LocalPool] = {}
        self._specs: dict[PoolId, EnginePoolSpec] = {}
        self._ended: list[SupervisedProcess] = []
        """Servers of pools that are not wanted any more, as long as they may be ending."""

    async def engines(self) -> tuple[ClusterEngine, ...]:
        """Return every engine that was started and has not ended for good."""
        self._engines = {name: engine for name, engine in self._engines.items() if not engine.process.gone}
        for pool in self._pools.values():
            pool.models.forget_gone()
        alone = tuple(
            ClusterEngine(
                name=engine.component.name,
                model=engine.component.model,
                spec_hash=engine.component.spec_hash,
                contract=engine.component.contract,
                phase=engine.process.phase,
                grpc=engine.ports.grpc(),
                incarnation=engine.process.incarnation,
                detail=engine.process.detail,
                folder=engine.component.recipe.folder,
            )
            for engine in self._engines.values()
        )
        return alone + tuple(seen for pool in self._pools.values() for seen in pool.models.seen)

    def tokenizer_of(self, name: EngineName) -> Digest | None:
        """Return the tokenizer of the folder that an engine was started with."""
        if (engine := self._engines.get(name)) is not None:
            return engine.component.tokenizer
        pooled = (pool.models.tokenizer_of(name) for pool in self._pools.values())
        return next((tokenizer for tokenizer in pooled if tokenizer is not None), None)

    async def act(self, steps: Plan) -> Acted:
        """Take a plan's steps; none is refused."""
        self._ensure_pools(steps.pools)
        for component in steps.start:
            await self.start(component)
        for name in steps.restart:
            await self.restart(name)
        for name in steps.stop:
            await self.stop(name)
        return Acted(specs=steps.specs)

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        """Do nothing: processes have no use for it."""

    async def start(self, component: EngineComponent) -> None:
        """Begin to run an engine; whenever it ends, it is started again."""
        if component.recipe.pool is not None:
            self._pools[component.recipe.pool].models.load(self._loadable(component, component.recipe.pool))
            return
        if component.name in self._engines:
            return
        repository = self._state.repository(component.name)

        def write() -> tuple[str, ...]:
            self._write_model(component, repository)
            return (component.recipe.triton_model,)

        process, ports = self._start_server(repository, write)
        self._engines[component.name] = _LocalEngine(component, process, ports)

    async def restart(self, name: EngineName) -> None:
        """End a broken engine at once; its supervisor starts it again after a pause."""
        if name in self._engines:
            self._engines[name].process.restart()
        for pool in self._pools.values():
            pool.models.restart(name)

    async def stop(self, name: EngineName) -> None:
        """Let an engine finish what it has and end it."""
        if name in self._engines:
            self._engines[name].process.stop()
        for pool in self._pools.values():
            pool.models.stop(name)

    async def stop_all(self) -> None:
        """End every engine, by force after a while, and wait until they are gone; nothing uses them any more."""
        for pool in self._pools.values():
            pool.process.stop()
            await pool.models.end()
        processes = self._processes()
        for process in processes:
            process.stop()
        forcing = asyncio.get_running_loop().call_later(LAST_GRACE_S, self.kill)
        for process in processes:
            await process.stopped()
        forcing.cancel()

    def kill(self) -> None:
        """End every engine at once."""
        for process in self._processes():
            process.kill()

    def _processes(self) -> list[SupervisedProcess]:
        alone = [engine.process for engine in self._engines.values()]
        return [*alone, *(pool.process for pool in self._pools.values()), *self._ended]

    def _ensure_pools(self, wanted: Mapping[PoolId, EnginePoolSpec]) -> None:
        """Start the servers of new pools, and end those of pools that are not wanted and that nothing is in."""
        self._specs |= wanted
        for pool_id in wanted.keys() - self._pools.keys():
            repository = self._state.repository(f"pool-{pool_id.replace('/', '.')}")
            repository.mkdir(parents=True, exist_ok=True)
            process, ports = self._start_server(repository, tuple)
            server = SharedServer(process, ports.grpc, repository, self._triton)
            self._pools[pool_id] = _LocalPool(process, LoadedModels(server, self._changed))
        for pool_id in self._pools.keys() - wanted.keys():
            if not self._pools[pool_id].models.names:
                ended = self._pools.pop(pool_id).process
                ended.stop()
                self._ended = [*(process for process in self._ended if not process.gone), ended]

    def _start_server(
        self, repository: Path, prepare: Callable[[], tuple[str, ...]]
    ) -> tuple[SupervisedProcess, _Ports]:
        """Start a server that loads the models that `prepare` has written and named."""
        ports, shm_prefix = _Ports(), new_shm_prefix()
        self._supervisor.remove_shared_memory_at_exit(shm_prefix)

        def made() -> Command:
            remove_shared_memory(shm_prefix)  # what its last process left
            launch = TritonLaunch(repository, prepare(), ports.at_start(), shm_prefix, exit_timeout_s=int(GRACE_S) - 5)
            return Command(
                triton_arguments(self._server.triton, launch),
                triton_environment(self._server.triton, self._server.environment),
                self._state.log(repository.name),
            )

        async def command() -> Command:
            return await asyncio.to_thread(made)

        policy = RestartPolicy(longest_pause_s=LONGEST_PAUSE_S, grace_s=GRACE_S)
        return self._supervisor.supervise(repository.name, command, self._changed, policy), ports

    def _loadable(self, component: EngineComponent, pool: PoolId) -> Loadable:
        return Loadable(
            name=component.name,
            model=component.model,
            spec_hash=component.spec_hash,
            contract=component.contract,
            tokenizer=component.tokenizer,
            longest_load_s=self._specs[pool].max_load,
            files=self._files(component),
        )

    def _write_model(self, component: EngineComponent, repository: Path) -> None:
        """Write a model into a repository; raises LaunchError."""
        try:
            write_repository(repository, self._files(component))
        except OSError as error:
            raise LaunchError(f"its model repository cannot be written: {error}") from error

    def _files(self, component: EngineComponent) -> Mapping[str, str]:
        """Return the files of a model's repository by path."""
        cache = str(self._state.cache / "models")
        return repository_files(component.recipe, cache)
