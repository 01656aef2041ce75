"""Reads a process's settings from its environment, once, into a frozen model.

A service derives its `Settings` from `ServiceSettings`, or from `ServerSettings` where it needs no registry, and adds
fields; the field `queue_max` is the variable `CONCH_QUEUE_MAX`. A variable that no field reads is an error, so a typing
mistake never silently means the default.
"""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

S = TypeVar("S", bound=BaseModel)

Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port to listen on; 0 means any free one."""

KNOWN_ELSEWHERE = frozenset({"CONCH_TEST_STRICT", "CONCH_API_KEYS_FILE"})
"""Variables with our prefix that other processes of the same environment read."""

_URL_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]*@")


class StartupError(Exception):
    """The process cannot start; the message is one sentence for whoever started it."""


class SettingsError(StartupError):
    """A setting is unknown, missing or wrong; the message names the variable."""


class ServerSettings(BaseModel):
    """What every process that serves needs to know; derive and add fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    host: str = "0.0.0.0"
    """Address that the service listens on."""
    port: Port
    """Port of the service; 0 means any free one."""
    admin_host: str = "0.0.0.0"
    """Address for health and metrics."""
    admin_port: Port = 9090
    """Port for health and metrics; 0 means any free one."""
    log_level: str = "INFO"
    internal_token: SecretStr | None = None
    """The secret that guards internal ports; without it they are open."""
    drain_s: float = Field(default=30.0, ge=0)
    """How long requests in flight may go on after SIGTERM, in seconds."""
    ready_file: Path | None = None
    """Written with `{"url", "admin_url", "pid"}` once the process serves."""
    otlp_endpoint: str | None = None
    """Where traces go (OTLP over HTTP); without it there are none."""
    advertise_url: str | None = None
    """How others reach this process; default: `http://host:port` as bound."""


class ServiceSettings(ServerSettings):
    """What a service needs to know that reads or writes the registry."""

    redis_url: str
    """`redis://`, `rediss://` or `unix://`; where the registry is."""


def load(cls: type[S], environ: Mapping[str, str], *, prefix: str = "CONCH_") -> S:
    """Return the settings that the environment holds; raises SettingsError. An empty variable counts as not set."""
    fields = {f"{prefix}{name.upper()}": name for name in cls.model_fields}
    given = {name: value for name, value in environ.items() if name.startswith(prefix) and value}
    unknown = sorted(set(given) - set(fields) - KNOWN_ELSEWHERE)
    if unknown:
        raise SettingsError("; ".join(_unknown(name, fields) for name in unknown))
    values = {fields[name]: _parse(cls, fields[name], value) for name, value in given.items() if name in fields}
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        problems = (_problem(prefix, detail["loc"], detail["msg"]) for detail in error.errors(include_input=False))
        raise SettingsError("; ".join(problems)) from None


def redacted(settings: BaseModel) -> dict[str, object]:
    """Return the settings for a start-up log: secrets and passwords in URLs are masked."""
    return {name: _mask(getattr(settings, name)) for name in type(settings).model_fields}


def _mask(value: object) -> object:
    match value:
        case SecretStr():
            return "**********"
        case str():
            return _URL_PASSWORD.sub(r"\1:**********@", value)
        case Path():
            return str(value)
        case tuple():
            return [_mask(item) for item in value]
        case _:
            return value


def _parse(cls: type[BaseModel], field: str, value: str) -> object:
    if get_origin(cls.model_fields[field].annotation) in (tuple, list, frozenset):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _unknown(name: str, fields: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, list(fields), n=1)
    return f"{name} is not a setting of this process" + (f" (did you mean {near[0]}?)" if near else "")


def _problem(prefix: str, location: tuple[int | str, ...], message: str) -> str:
    if not location:
        return message
    return f"{prefix}{str(location[0]).upper()}: {message[:1].lower()}{message[1:]}"
