from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from conch_kit.settings import Port, ServerSettings, ServiceSettings, SettingsError, load, redacted


class Settings(ServiceSettings):
    port: Port = 8000
    queue_max: int = 10
    cors_origins: tuple[str, ...] = ()


BASE = {"CONCH_REDIS_URL": "redis://localhost"}


def test_fields_are_read_from_variables_of_their_name() -> None:
    environ = BASE | {
        "CONCH_QUEUE_MAX": "5",
        "CONCH_CORS_ORIGINS": "http://a, http://b",
        "CONCH_READY_FILE": "/x",
        "PATH": "",
    }
    settings = load(Settings, environ)
    assert (settings.queue_max, settings.cors_origins, settings.ready_file) == (5, ("http://a", "http://b"), Path("/x"))
    assert settings.admin_port == 9090


def test_an_empty_variable_counts_as_not_set() -> None:
    settings = load(Settings, BASE | {"CONCH_INTERNAL_TOKEN": "", "CONCH_QUEUE_MAX": ""})
    assert settings.internal_token is None
    assert settings.queue_max == 10


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            {"CONCH_QUEU_MAX": "1"},
            r"CONCH_QUEU_MAX is not a setting of this process \(did you mean CONCH_QUEUE_MAX\?\)",
        ),
        ({"CONCH_XYZZY": "1"}, "CONCH_XYZZY is not a setting of this process$"),
        ({"CONCH_QUEUE_MAX": "many"}, "CONCH_QUEUE_MAX: input should be a valid integer"),
        ({"CONCH_PORT": "70000"}, "CONCH_PORT: input should be less than or equal to 65535"),
        ({"CONCH_REDIS_URL": ""}, "CONCH_REDIS_URL: field required"),
        ({"CONCH_QUEUE_MAX": "x", "CONCH_PORT": "y"}, "CONCH_PORT.*; CONCH_QUEUE_MAX|CONCH_QUEUE_MAX.*; CONCH_PORT"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_variable(extra: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(Settings, BASE | extra)


def test_an_error_does_not_repeat_a_secret() -> None:
    class Strict(ServiceSettings):
        port: int = 1
        pin: int = 0

    with pytest.raises(SettingsError) as caught:
        load(Strict, BASE | {"CONCH_PIN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_variables_of_other_processes_are_left_alone() -> None:
    assert load(Settings, BASE | {"CONCH_TEST_STRICT": "1"}).queue_max == 10


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load(Settings, BASE).queue_max = 3


def test_the_redacted_settings_show_no_secret() -> None:
    settings = load(
        Settings, {"CONCH_REDIS_URL": "rediss://user:pass%20@redis:6379/0", "CONCH_INTERNAL_TOKEN": "canary-token"}
    )
    shown = redacted(settings)
    assert "canary" not in str(shown)
    assert "pass" not in str(shown)
    assert shown["redis_url"] == "rediss://user:**********@redis:6379/0"
    assert settings.internal_token == SecretStr("canary-token")


def test_a_process_without_a_registry_is_told_of_none() -> None:
    assert load(ServerSettings, {"CONCH_PORT": "1"}).port == 1
    with pytest.raises(SettingsError, match="CONCH_REDIS_URL is not a setting of this process"):
        load(ServerSettings, BASE | {"CONCH_PORT": "1"})
