"""What is in the server of a pool's pod, and what is to be: the operator orders it, and hears of each change."""

import asyncio
import logging
import secrets

from conch_kit.timed_waits import wait_at_most
from conch_operator.agent.pool_messages import PoolOrder, PoolQuestion, PoolReport
from conch_operator.engine_pools.loaded_models import LoadedModels
from conch_operator.engine_pools.shared_server import ServerProcess
from conch_operator.state import EnginePhase

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 60.0


class ChangeLog:
    """Counts what has happened, so that who knows an older state hears of it."""

    def __init__(self) -> None:
        self.agent = secrets.token_hex(4)
        """Tells agents that follow on each other apart."""
        self.count = 0
        self._news = asyncio.Event()

    def note(self) -> None:
        """Note that something has happened."""
        self.count += 1
        self._news.set()

    async def beyond(self, agent: str, count: int, wait_s: float) -> None:
        """Return when something has happened that is not in this count, or when the time is over."""
        if (agent, count) == (self.agent, self.count):
            self._news.clear()
            await wait_at_most(self._news, min(wait_s, _LONGEST_WAIT_S))


class PoolModels:
    """Obeys orders about the models of one server, and reports."""

    def __init__(self, process: ServerProcess, models: LoadedModels, changes: ChangeLog) -> None:
        """Take over what notes its changes already."""
        self._process = process
        self._models = models
        self._changes = changes
        self._obeyed = (0, 0)

    def obey(self, order: PoolOrder) -> None:
        """Have loaded what is to be there, and let go what is not, unless a later order has come before."""
        given = order.fence, order.number
        if order.fence and given < self._obeyed:
            log.info("An order that comes late is not obeyed.", extra={"number": order.number})
            return
        self._obeyed = given
        wanted = {*order.keep, *(loadable.name for loadable in order.load)}
        for name in tuple(self._models.names):
            if name not in wanted:
                self._models.stop(name)
        for loadable in order.load:
            self._models.load(loadable)
        for name in order.restart:
            self._models.restart(name)
        self._changes.note()

    def report(self) -> PoolReport:
        """Return what is there."""
        self._models.forget_gone()
        seen = self._models.seen
        tokenizers = {engine.name: self._models.tokenizer_of(engine.name) for engine in seen}
        return PoolReport(
            agent=self._changes.agent,
            changes=self._changes.count,
            live=self._process.phase is EnginePhase.RUNNING,
            models=seen,
            tokenizers={name: tokenizer for name, tokenizer in tokenizers.items() if tokenizer is not None},
        )

    async def news(self, asked: PoolQuestion) -> PoolReport:
        """Return what is there when that has changed since, or when the time is over."""
        await self._changes.beyond(asked.agent, asked.changes, asked.wait_s)
        return self.report()
