"""What `conch up` prints for its user: one line per step while it starts, and how to call it once it serves.

Steps go to standard error, what a user wants to copy goes to standard output.
"""

import time
from collections.abc import Mapping
from typing import TextIO

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.records import ModelKind
from conch_operator.local.exit_cause import one_line
from conch_operator.local.supervisor import SupervisedProcess
from conch_operator.local.welcome import Caller, welcome
from conch_operator.reconcile.status import Statuses
from conch_operator.state import EnginePhase

_STARTING_REASONS = frozenset({Reason.WAITING, Reason.ENGINE_STARTING, Reason.ROUTE_PENDING, Reason.WORKERS_MISSING})
_SILENT_S = 15.0
"""How long nothing is said about a model that is only starting."""


class Console:
    """Prints each thing once, when it changes."""

    def __init__(self, steps: TextIO, answers: TextIO, caller: Caller) -> None:
        self._steps = steps
        self._answers = answers
        self._caller = caller
        self._started = time.monotonic()
        self._said: dict[str, str] = {}
        self._models: frozenset[ModelId] = frozenset()
        self._welcomed = False

    def step(self, text: str) -> None:
        """Print one line with the time since the start."""
        print(f"[{time.monotonic() - self._started:6.1f}s] {text}", file=self._steps, flush=True)

    def change(self, subject: str, text: str) -> None:
        """Print a line about a subject unless it was the last one about it."""
        if self._said.get(subject) != text:
            self._said[subject] = text
            self.step(text)

    def services(self, processes: Mapping[str, SupervisedProcess], urls: Mapping[str, str]) -> None:
        """Print which services serve, and how one ended."""
        for name, process in processes.items():
            if process.phase is EnginePhase.EXITED:
                self.change(name, f"{name} {process.detail} It is started again.")
            elif name in urls:
                self.change(name, f"{name} serves at {urls[name]}")

    def models(self, statuses: Statuses) -> None:
        """Print which models are ready, and why one is not."""
        for model, status in statuses.items():
            ready = status.condition(ConditionType.READY)
            if ready is None:
                continue
            if status.ready:
                surplus = status.ready_replicas > status.replicas  # while one takes another's place
                wanted = f"engines, {status.replicas} wanted" if surplus else f"of {status.replicas} engines"
                engines = f"{status.ready_replicas} {wanted}"
                note = f"; {one_line(ready.message)}" if ready.message else ""
                self.change(model, f"{model} is Ready ({engines}){note}")
            elif ready.reason not in _STARTING_REASONS or time.monotonic() - self._started > _SILENT_S:
                self.change(model, f"{model} is not ready: {ready.reason}: {one_line(ready.message)}")
        for gone in self._models - statuses.keys():
            self.step(f"{gone} is no longer served")
            self._said.pop(gone, None)
        self._models = frozenset(statuses)

    def welcome(self, url: str, statuses: Statuses, kinds: Mapping[ModelId, ModelKind]) -> None:
        """Print once how to call what is served; `kinds`: of every model that has a status."""
        if self._welcomed:
            return
        ready = [(kinds[model], status.served_names[0]) for model, status in statuses.items() if status.ready]
        if not ready:
            return
        self._welcomed = True
        self.step(f"everything is ready: {', '.join(name for _, name in ready)}")
        print(welcome(url, ready, self._caller), file=self._answers, flush=True)
