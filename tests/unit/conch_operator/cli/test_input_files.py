import json
from pathlib import Path

import pytest

from conch_operator.cli.errors import CommandError
from conch_operator.cli.input_files import parse_conversion, read_model_config

ENTRY = {"name": "a\u00a0b", "url": "http://h:8001", "path": '/models/say \\"x\\"'}


@pytest.mark.parametrize("spaces", ["\u00a0\u00a0 \u00a0", "\u3000", "\u2003\u2009\u202f", "\ufeff"])
@pytest.mark.parametrize("beginning", ["", "\ufeff"])
def test_json_that_was_copied_from_a_page_is_read(tmp_path: Path, beginning: str, spaces: str) -> None:
    file = tmp_path / "model_config.json"
    text = json.dumps({"llm": [ENTRY]}, indent=4, ensure_ascii=False).replace("    ", spaces)
    file.write_text(beginning + text, encoding="utf-8")
    (model,) = read_model_config(file).objects
    assert model["spec"]["servedNames"] == ["a\u00a0b"]  # type: ignore[index]


@pytest.mark.parametrize("text", ["{\u00a0", '{"llm\u00a0', "\u200b{}"])
def test_other_broken_json_is_named_by_its_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "model_config.json"
    file.write_text(text)
    with pytest.raises(CommandError, match="broken JSON"):
        read_model_config(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model_config.json"
    file.write_bytes("für".encode("latin-1"))
    with pytest.raises(CommandError, match=r"model_config\.json: cannot be read"):
        read_model_config(file)


def test_a_model_of_a_file_that_cannot_be_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "model_config.json"
    good = {"name": "one", "url": "http://h:8001", "path": "/models/one"}
    bad = good | {"name": "two", "url": "http://h:99999"}
    file.write_text(json.dumps({"llm": [good, bad]}))
    conversion = read_model_config(file)
    with pytest.raises(CommandError) as refused:
        parse_conversion(file, conversion)
    (fault,) = refused.value.sentences
    assert fault.startswith(f"{file}: llm two: url: must be host:port")
