"""No process begins with a number that makes no sense: it says which, instead of failing at its first request."""

from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from conch_embed_worker.settings import EmbedWorkerSettings
from conch_gateway.settings import GatewaySettings
from conch_llm_worker.settings import LlmWorkerSettings
from conch_media.settings import MediaSettings
from conch_operator.agent.settings import FolderAgentSettings
from conch_operator.download.settings import DownloadProcessSettings
from conch_operator.settings import EngineSettings, OperatorSettings, WorkerPoolSettings
from conch_speech_worker.settings import SpeechWorkerSettings
from conch_tokenizer.settings import TokenizerSettings

SETTINGS: tuple[type[BaseModel], ...] = (
    GatewaySettings,
    TokenizerSettings,
    LlmWorkerSettings,
    EmbedWorkerSettings,
    SpeechWorkerSettings,
    MediaSettings,
    OperatorSettings,
    EngineSettings,
    WorkerPoolSettings,
    FolderAgentSettings,
    DownloadProcessSettings,
)


def _numbers() -> Iterator[tuple[type[BaseModel], str]]:
    for settings in SETTINGS:
        for name, field in settings.model_fields.items():
            if {int, float} & {field.annotation, *get_args(field.annotation)}:
                yield settings, name


NUMBERS = list(_numbers())


def _refusals(settings: type[BaseModel], name: str, value: object) -> list[str]:
    """Return what is wrong with this value alone."""
    with pytest.raises(ValidationError) as caught:
        settings.model_validate({name: value})
    names = (name, settings.model_fields[name].alias)
    return [error["type"] for error in caught.value.errors() if error["loc"][0] in names]


@pytest.mark.parametrize(("settings", "name"), NUMBERS)
def test_no_number_is_negative(settings: type[BaseModel], name: str) -> None:
    (refusal,) = _refusals(settings, name, -1)
    assert refusal in ("greater_than", "greater_than_equal")


@pytest.mark.parametrize(("settings", "name"), [(one, name) for one, name in NUMBERS if name.endswith("port")])
def test_a_port_is_one(settings: type[BaseModel], name: str) -> None:
    assert _refusals(settings, name, 65536) == ["less_than_equal"]


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (TokenizerSettings, "children", 65),
        (MediaSettings, "max_fetches", 1025),
        (GatewaySettings, "media_url", "https://media:8080"),
        (GatewaySettings, "media_url", "http://user@media:8080"),
        (FolderAgentSettings, "token_sha256", "0" * 63),
    ],
)
def test_what_a_process_cannot_use_is_refused(settings: type[BaseModel], name: str, value: object) -> None:
    assert _refusals(settings, name, value)
