"""The processes that stand around the engines on a laptop: Redis, tokenizer, workers and gateway.

On a cluster the chart runs these. All start together: each lives with the others' absence, so nothing has to wait. Only
the one that fetches pictures waits for a model that allows it.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.records import Route
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Command, RestartPolicy, SupervisedProcess, Supervisor

DRAIN_S = 5
"""How long a service may finish its requests after Ctrl-C."""

REDIS = "redis"
GATEWAY = "gateway"
MEDIA = "media"
_MODULES = {
    "tokenizer": "conch_tokenizer.main",
    "llm-worker": "conch_llm_worker.main",
    "embed-worker": "conch_embed_worker.main",
    "speech-worker": "conch_speech_worker.main",
    GATEWAY: "conch_gateway.main",
    MEDIA: "conch_media.main",
}
_CACHE_TOKENIZERS = ("tokenizer", "llm-worker", "speech-worker")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the services are started with."""

    host: str
    """Where the gateway listens."""
    port: int
    log_level: str
    redis_url: str
    redis_binary: Path | None
    """The server to start at `redis_url`; None when someone else runs it."""
    media_port: int
    """Where pictures are fetched, once a model allows it; the gateway is told before."""
    internal_token: str
    environment: Mapping[str, str]
    """Of every process, without any of Conch's settings."""
    gateway_settings: Mapping[str, str]
    """Settings that the user gave `conch up` for the gateway, API keys for instance."""


def needs_media(routes: Iterable[Route]) -> bool:
    """Return whether one of these models lets clients name pictures by URL."""
    return any(route.pictures is not None and route.pictures.allowed_domains for route in routes)


class Services:
    """Knows each service's process and where it serves."""

    def __init__(self, options: ServiceOptions, state: StateFolder) -> None:
        self._options = options
        self._state = state
        self.processes: dict[str, SupervisedProcess] = {}

    def start(self, supervisor: Supervisor, changed: Callable[[], None]) -> None:
        """Begin to run all of them but the one that fetches pictures."""
        if self._options.redis_binary is not None:
            self._supervise(supervisor, changed, REDIS)
        for name in _MODULES:
            if name != MEDIA:
                self._supervise(supervisor, changed, name)

    def start_media(self, supervisor: Supervisor, changed: Callable[[], None]) -> None:
        """Begin to run the process that fetches pictures, unless that has begun."""
        if MEDIA not in self.processes:
            self._supervise(supervisor, changed, MEDIA)

    def url(self, name: str) -> str | None:
        """Return where a service serves; None while it does not."""
        try:
            return str(json.loads(self._ready_file(name).read_text())["url"])
        except (FileNotFoundError, ValueError, KeyError):
            return None

    async def stop(self, names: tuple[str, ...]) -> None:
        """End these services and wait until they are gone."""
        chosen = [self.processes[name] for name in names if name in self.processes]
        for process in chosen:
            process.stop()
        for process in chosen:
            await process.stopped()

    def _supervise(self, supervisor: Supervisor, changed: Callable[[], None], name: str) -> None:
        async def command() -> Command:
            return self._redis() if name == REDIS else self._service(name)

        policy = RestartPolicy(grace_s=DRAIN_S + 3)
        self.processes[name] = supervisor.supervise(name, command, changed, policy)

    def _redis(self) -> Command:
        options = self._options
        port = options.redis_url.rsplit(":", 1)[-1].split("/")[0]
        arguments = (
            *(str(options.redis_binary), "--port", port, "--bind", "127.0.0.1", "--dir", str(self._state.run)),
            *("--save", "", "--appendonly", "no", "--maxmemory-policy", "volatile-lru"),
        )
        return Command(arguments, options.environment, self._state.log(REDIS))

    def _service(self, name: str) -> Command:
        self._ready_file(name).unlink(missing_ok=True)
        environment = {**self._options.environment, **self._settings(name)}
        return Command((sys.executable, "-m", _MODULES[name]), environment, self._state.log(name))

    def _settings(self, name: str) -> dict[str, str]:
        options = self._options
        settings = {
            "CONCH_INTERNAL_TOKEN": options.internal_token,
            "CONCH_LOG_LEVEL": options.log_level,
            "CONCH_DRAIN_S": str(DRAIN_S),
            "CONCH_READY_FILE": str(self._ready_file(name)),
            "CONCH_ADMIN_HOST": "127.0.0.1",
            "CONCH_ADMIN_PORT": "0",
        }
        if name == MEDIA:
            return settings | {"CONCH_HOST": "127.0.0.1", "CONCH_PORT": str(options.media_port)}
        settings["CONCH_REDIS_URL"] = options.redis_url
        if name == GATEWAY:
            media_url = f"http://127.0.0.1:{options.media_port}"
            return (
                settings
                | {"CONCH_HOST": options.host, "CONCH_PORT": str(options.port), "CONCH_MEDIA_URL": media_url}
                | dict(options.gateway_settings)
            )
        settings |= {"CONCH_HOST": "127.0.0.1", "CONCH_PORT": "0"}
        if name in _CACHE_TOKENIZERS:
            settings["CONCH_CACHE_DIR"] = str(self._state.cache / "tokenizers" / name)
        return settings

    def _ready_file(self, name: str) -> Path:
        return self._state.run / f"{name}.json"
