"""The agents of all pods of a played cluster, as one process: the agent's own code, once for each model.

It listens on every address, so whoever asks for the agent of a pod reaches it. Which model's agent is meant, the
operator's token says; one that is no model's is refused. All models have one folder.
"""

import asyncio
import signal
import sys
from pathlib import Path

from pydantic import SecretStr

from conch_contracts.names import AGENT_PORT, ENGINE_COMPONENT
from conch_kit.http.asgi import ASGIApp, Receive, Scope, Send
from conch_kit.http_server.bound_socket import bound
from conch_kit.http_server.server import HttpServer
from conch_operator.agent.app import make_app
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.termination import LONGEST_HOLD_S, EngineTermination
from conch_operator.agent.tokens import AgentOwner, AgentTokens
from conch_operator.model_folder.reader import FolderNeeds

_BEARER = b"Bearer "


def agents_of(folder: FolderReporter, secret: str, namespace: str, models: list[str]) -> ASGIApp:
    """Return the app of the agents of these models."""
    tokens = AgentTokens(SecretStr(secret))
    owners = [AgentOwner(namespace, ENGINE_COMPONENT, model) for model in models]
    apps = {
        _BEARER + tokens.token(owner).encode(): make_app(folder, EngineTermination(LONGEST_HOLD_S), tokens.told(owner))
        for owner in owners
    }
    stranger = next(iter(apps.values()))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        given = next((value for name, value in scope.get("headers", ()) if name == b"authorization"), b"")
        await apps.get(given, stranger)(scope, receive, send)

    return app


async def _serve(folder: Path, secret: str, namespace: str, models: list[str]) -> None:
    needs = FolderNeeds(weights=True, config=True, template=True, onnx=False, speech=False)
    reporter = FolderReporter(folder, f"/models/{folder.name}", needs)
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    server = HttpServer(agents_of(reporter, secret, namespace, models))
    with bound("0.0.0.0", AGENT_PORT) as listener:
        async with server.serving(listener):
            await told.wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.stdin.read().split()))
