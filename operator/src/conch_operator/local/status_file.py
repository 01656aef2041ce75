"""The status file: what `conch up` knows about services and models, for `conch status` to show."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from conch_operator.local.state_folder import write_atomically
from conch_operator.local.supervisor import SupervisedProcess
from conch_operator.reconcile.status import ModelStatus, Statuses
from conch_operator.state import EnginePhase


class ServiceReport(BaseModel):
    """One process around the engines."""

    model_config = ConfigDict(frozen=True)

    name: str
    phase: EnginePhase
    detail: str


class Report(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    pid: int
    """Of `conch up`."""
    url: str | None
    """Where the gateway serves."""
    services: tuple[ServiceReport, ...]
    models: tuple[ModelStatus, ...]


def write_report(file: Path, url: str | None, processes: Mapping[str, SupervisedProcess], statuses: Statuses) -> None:
    """Write the file when its content has changed."""
    services = tuple(
        ServiceReport(name=name, phase=process.phase, detail=process.detail) for name, process in processes.items()
    )
    report = Report(pid=os.getpid(), url=url, services=services, models=tuple(statuses.values()))
    data = report.model_dump_json(by_alias=True, indent=2).encode()
    if not file.exists() or file.read_bytes() != data:
        write_atomically(file, data)


def read_report(file: Path) -> Report | None:
    """Return what the file says; None when there is none to read."""
    try:
        return Report.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
