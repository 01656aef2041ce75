"""The agent in the pod of an EnginePool, put together."""

from contextlib import AsyncExitStack
from pathlib import Path

from conch_contracts.names import TRITON_GRPC_PORT, EngineAddress
from conch_operator.agent.app import make_app
from conch_operator.agent.graph_cache import GraphCache
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_app import make_pool_app
from conch_operator.agent.pool_folders import PoolFolders
from conch_operator.agent.pool_models import ChangeLog, PoolModels
from conch_operator.agent.serving import serve_until_told
from conch_operator.agent.settings import AgentSettings
from conch_operator.agent.termination import EngineTermination
from conch_operator.engine_pools.loaded_models import LoadedModels
from conch_operator.engine_pools.shared_server import SharedServer
from conch_operator.probe.triton_request import bounded_client

POOL_REPOSITORY = Path("/conch/repository")
"""Where both containers have the model repository, under the same name: the server's processes are told by it."""


async def run_pool_agent(settings: AgentSettings) -> None:
    """Load, unload and report until SIGTERM."""
    async with AsyncExitStack() as stack:
        changes = ChangeLog()
        process = PodServer(changes.note)
        process.look()
        process.restart()  # what an agent before this one has loaded nobody knows any more
        await stack.enter_async_context(process)
        triton = await stack.enter_async_context(bounded_client())
        address = EngineAddress(f"127.0.0.1:{TRITON_GRPC_PORT}")
        loaded = LoadedModels(SharedServer(process, lambda: address, POOL_REPOSITORY, triton), changes.note)
        stack.push_async_callback(loaded.end)
        await stack.enter_async_context(GraphCache(process, loaded))
        termination = EngineTermination(settings.longest_hold_s, process.has_ended)
        everybodys = make_app(None, termination, settings.token_sha256)
        models = PoolModels(process, loaded, changes)
        app = make_pool_app(models, PoolFolders(process), settings.token_sha256, everybodys)
        await serve_until_told(app, settings)
