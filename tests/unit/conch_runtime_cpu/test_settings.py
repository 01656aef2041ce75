import json
from pathlib import Path

import pytest

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.settings import RuntimeSettings, parse_settings

VALID = {
    "model_folder": "/models/m",
    "cache_folder": "/cache",
    "quantization": "int8",
    "max_batch_size": "16",
    "tokens_per_second": "0",
    "kv_cache_bytes": "1000",
    "max_length": "4096",
}


def _config(values: dict[str, str]) -> str:
    return json.dumps({"parameters": {name: {"string_value": value} for name, value in values.items()}})


def test_the_settings_are_read() -> None:
    expected = RuntimeSettings(Path("/models/m"), Path("/cache"), Quantization.INT8, 16, 0, 1000, 4096)
    assert parse_settings(_config(VALID)) == expected


@pytest.mark.parametrize(("said", "bytes_"), [({}, 256 * 1024**2), ({"feature_cache_bytes": "7"}, 7)])
def test_the_cache_of_pictures_has_a_default(said: dict[str, str], bytes_: int) -> None:
    assert parse_settings(_config(VALID | said)).feature_cache_bytes == bytes_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quantization", "int2"),
        ("max_batch_size", "0"),
        ("tokens_per_second", "-1"),
        ("kv_cache_bytes", "x"),
        ("max_length", "-1"),
        ("feature_cache_bytes", "much"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    with pytest.raises(UnusableModel, match=name):
        parse_settings(_config(VALID | {name: value}))


@pytest.mark.parametrize("name", VALID)
def test_a_missing_value_is_named(name: str) -> None:
    with pytest.raises(UnusableModel, match=name):
        parse_settings(_config({key: value for key, value in VALID.items() if key != name}))
