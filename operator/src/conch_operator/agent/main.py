"""The agent's process: `conch-engine-agent`."""

import asyncio
import os
import sys

import uvicorn

from conch_kit import logs
from conch_kit.settings import StartupError, load
from conch_operator.agent.app import make_app
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.settings import AgentSettings
from conch_operator.agent.termination import EngineTermination
from conch_operator.model_folder.reader import FolderNeeds


def main() -> int:
    """Serve until SIGTERM, which the kubelet sends after the engine has ended."""
    logs.configure("INFO", stream=sys.stderr)
    try:
        settings = load(AgentSettings, os.environ)  # noqa: TID251
    except StartupError as error:
        sys.stderr.write(f"conch-engine-agent: {error}\n")
        return 1
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: AgentSettings) -> None:
    needs = FolderNeeds(
        weights=settings.needs_weights,
        config=settings.needs_config,
        template=settings.needs_template,
        onnx=settings.takes_onnx,
    )
    folder = FolderReporter(settings.folder, settings.shown_folder, needs, downloads=settings.downloads)
    app = make_app(folder, EngineTermination(settings.longest_hold_s))
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    sys.exit(main())
