"""The HTTP client of the agents in engines' pods."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError

from conch_contracts.names import AGENT_PORT, MAX_BUNDLE_BYTES, Digest
from conch_operator.agent.messages import BUNDLE_PATH, RESTART_PATH, SOURCE_PATH, WITHDRAWN_PATH, SourceReport
from conch_operator.agent.pool_messages import (
    FOLDER_BUNDLE_PATH,
    FOLDER_PATH,
    MODELS_PATH,
    REPORT_PATH,
    FolderQuestion,
    PoolOrder,
    PoolQuestion,
    PoolReport,
)
from conch_operator.agent.tokens import AgentTokens
from conch_operator.kubernetes.pods.pod_status import AgentAddress

_ANSWER_S = 5.0
_BUNDLE_S = 30.0
_FOLDER_S = 60.0
"""An agent reads one folder after the other."""
AT_ONCE = 256
"""As many agents may hang without holding up another."""
Report = TypeVar("Report", bound=BaseModel)
_OTHER_SECRET = "its pod was made with another internal token and is replaced"


class AgentUnavailable(Exception):
    """An agent did not answer rightly."""


class Agents:
    """Asks agents by the address of their pod, each with its own token; agents of earlier versions want none."""

    def __init__(self, tokens: AgentTokens, port: int = AGENT_PORT) -> None:
        self.tokens = tokens
        self._port = port
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(trust_env=False, connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def source(self, agent: AgentAddress) -> SourceReport:
        """Return what the folder beside an agent says; raises AgentUnavailable."""
        _, data = await self._call("GET", agent, SOURCE_PATH, _ANSWER_S)
        return _read(SourceReport, data, agent)

    async def bundle(self, agent: AgentAddress) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle; raises AgentUnavailable."""
        digest, data = await self._call("GET", agent, BUNDLE_PATH, _BUNDLE_S)
        return Digest(digest), data

    async def release(self, agent: AgentAddress) -> None:
        """Tell an agent that its engine may end; raises AgentUnavailable."""
        await self._call("POST", agent, WITHDRAWN_PATH, _ANSWER_S)

    async def request_restart(self, agent: AgentAddress) -> None:
        """Tell an agent that its engine must be started again; raises AgentUnavailable."""
        await self._call("POST", agent, RESTART_PATH, _ANSWER_S)

    async def pool_report(self, agent: AgentAddress, asked: PoolQuestion) -> PoolReport:
        """Return what is in a pool's server; raises AgentUnavailable. Who waits for news takes no other's turn."""
        turn = nullcontext() if asked.wait_s else self._slots
        _, data = await self._call("POST", agent, REPORT_PATH, asked.wait_s + _ANSWER_S, asked, turn)
        return _read(PoolReport, data, agent)

    async def order(self, agent: AgentAddress, order: PoolOrder) -> PoolReport:
        """Say what is to be in a pool's server, and return what is there; raises AgentUnavailable."""
        _, data = await self._call("POST", agent, MODELS_PATH, _ANSWER_S, order)
        return _read(PoolReport, data, agent)

    async def folder(self, agent: AgentAddress, asked: FolderQuestion) -> SourceReport:
        """Return what the folder of one of a pool's models says; raises AgentUnavailable."""
        _, data = await self._call("POST", agent, FOLDER_PATH, _FOLDER_S, asked)
        return _read(SourceReport, data, agent)

    async def folder_bundle(self, agent: AgentAddress, asked: FolderQuestion) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of one of a pool's models; raises AgentUnavailable."""
        digest, data = await self._call("POST", agent, FOLDER_BUNDLE_PATH, _BUNDLE_S, asked)
        return Digest(digest), data

    async def _call(
        self,
        method: str,
        agent: AgentAddress,
        path: str,
        timeout_s: float,
        said: BaseModel | None = None,
        turn: AbstractAsyncContextManager[object] | None = None,
    ) -> tuple[str, bytes]:
        assert self._session is not None
        host = agent.host
        url = f"http://{host}:{self._port}{path}"
        headers = {"Authorization": f"Bearer {self.tokens.token(agent.owner)}"}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            body = None if said is None else said.model_dump_json().encode()
            asked = self._session.request(
                method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            )
            async with turn or self._slots, asked as response:
                data = await response.content.read(MAX_BUNDLE_BYTES + 1)
                while chunk := await response.content.read(MAX_BUNDLE_BYTES + 1 - len(data)):
                    data += chunk
                if response.status == 401:
                    raise AgentUnavailable(f"the agent at {host} does not know this operator's token: {_OTHER_SECRET}")
                if response.status != 200 or len(data) > MAX_BUNDLE_BYTES:
                    raise AgentUnavailable(f"the agent at {host} answers {response.status} to {method} {path}")
                return response.headers.get("x-conch-digest", ""), data
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AgentUnavailable(f"the agent at {host} does not answer{_because(error, timeout_s)}") from error


def _because(error: BaseException, timeout_s: float) -> str:
    """Return the cause as a user can read it, without what a library adds."""
    match error:
        case TimeoutError():
            return f" within {timeout_s:g} s"
        case OSError(errno=int(number)) if number > 0:
            return f": {os.strerror(number)}"
        case _:
            return f": {str(error) or type(error).__name__}"


def _read(kind: type[Report], data: bytes, agent: AgentAddress) -> Report:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise AgentUnavailable(f"the agent at {agent.host} says what this operator cannot read: {error}") from error
