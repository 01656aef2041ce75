"""The agent's process: `conch-engine-agent`."""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from conch_kit import logs
from conch_kit.http_server.bound_socket import bound
from conch_kit.http_server.server import HttpServer
from conch_kit.settings import StartupError, load
from conch_operator.agent.app import make_app
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.settings import AgentSettings
from conch_operator.agent.termination import EngineTermination
from conch_operator.model_folder.reader import FolderNeeds

_LAST_ANSWERS_S = 1.0
"""How long answers that are under way may take at the end."""


def main() -> int:
    """Serve until SIGTERM, which the kubelet sends after the engine has ended."""
    logs.configure("INFO", stream=sys.stderr)
    try:
        asyncio.run(_serve(load(AgentSettings, os.environ)))  # noqa: TID251
    except StartupError as error:
        sys.stderr.write(f"conch-engine-agent: {error}\n")
        return 1
    return 0


async def _serve(settings: AgentSettings) -> None:
    needs = FolderNeeds(
        weights=settings.needs_weights,
        config=settings.needs_config,
        template=settings.needs_template,
        onnx=settings.takes_onnx,
        speech=settings.needs_speech,
    )
    folder = FolderReporter(settings.folder, settings.shown_folder, needs, downloads=settings.downloads)
    app = make_app(folder, EngineTermination(settings.longest_hold_s), settings.token_sha256)
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    loop.add_signal_handler(signal.SIGINT, told.set)
    server = HttpServer(app)
    with bound(settings.host, settings.port) as listener:
        async with server.serving(listener):
            await told.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(server.finish(), _LAST_ANSWERS_S)


if __name__ == "__main__":
    sys.exit(main())
