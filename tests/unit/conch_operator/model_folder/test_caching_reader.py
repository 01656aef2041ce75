import sys
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.state import DesiredModel, SourceFacts, SourceFault
from testkit.builders.model_deployments import model_deployment


def model(base: Path, **spec: Any) -> DesiredModel:
    return DesiredModel(model_deployment(**spec), base, 1)


def test_a_folder_that_recovers_is_read_again(folder: Path) -> None:
    reader = CachingFolderReader()
    hidden = (folder / "tokenizer.json").rename(folder / "hidden")
    assert isinstance(reader.read(model(folder.parent)), SourceFault)
    hidden.rename(folder / "tokenizer.json")
    assert isinstance(reader.read(model(folder.parent)), SourceFault), "a change counts once it is seen twice"
    first = reader.read(model(folder.parent))
    assert isinstance(first, SourceFacts)
    assert reader.read(model(folder.parent)) is first


def test_a_folder_whose_template_could_not_be_compiled_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "chat_template.jinja").write_text("{{ 'asked again' }}")
    reader, wanted = CachingFolderReader(), model(folder.parent)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(folder / "no-python"))
        found = reader.read(wanted)
    assert isinstance(found, SourceFault)
    assert (found.reason, "It is tried again." in found.message) == (Reason.TEMPLATE_UNCHECKED, True)
    assert isinstance(reader.read(wanted), SourceFacts)


def test_a_folder_that_was_downloaded_is_read_where_it_lies(folder: Path) -> None:
    wanted = model(folder.parent, source={"huggingFace": {"repo": "org/tiny"}})
    found = CachingFolderReader(lambda _: folder).read(wanted)
    assert isinstance(found, SourceFacts), found
    assert found.folder == folder
