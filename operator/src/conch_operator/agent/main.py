"""The agent's process: `conch-engine-agent`, and `conch-engine-agent pool` in the pod of an EnginePool."""

import asyncio
import os
import sys

from conch_kit import logs
from conch_kit.settings import StartupError, load
from conch_operator.agent.app import make_app
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_agent import run_pool_agent
from conch_operator.agent.serving import serve_until_told
from conch_operator.agent.settings import AgentSettings, FolderAgentSettings
from conch_operator.agent.termination import EngineTermination
from conch_operator.model_folder.reader import FolderNeeds


def main() -> int:
    """Serve until SIGTERM."""
    logs.configure("INFO", stream=sys.stderr)
    environ = os.environ  # noqa: TID251
    try:
        if sys.argv[1:] == ["pool"]:
            asyncio.run(run_pool_agent(load(AgentSettings, environ)))
        else:
            asyncio.run(_serve(load(FolderAgentSettings, environ)))
    except StartupError as error:
        sys.stderr.write(f"conch-engine-agent: {error}\n")
        return 1
    return 0


async def _serve(settings: FolderAgentSettings) -> None:
    needs = FolderNeeds(
        weights=settings.needs_weights,
        config=settings.needs_config,
        template=settings.needs_template,
        onnx=settings.takes_onnx,
        speech=settings.needs_speech,
    )
    folder = FolderReporter(settings.folder, settings.shown_folder, needs, downloads=settings.downloads)
    engine = PodServer(lambda: None)
    termination = EngineTermination(settings.longest_hold_s, engine.has_ended)
    app = make_app(folder, termination, settings.token_sha256, engine.restart_unless_new)
    await serve_until_told(app, settings)


if __name__ == "__main__":
    sys.exit(main())
