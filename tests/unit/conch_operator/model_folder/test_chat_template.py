from pathlib import Path

import pytest

from conch_contracts.conditions import Reason
from conch_operator.model_folder.chat_template import read_chat_template, read_templates
from conch_operator.model_folder.errors import SourceError
from conch_operator.state import DesiredModel
from testkit.builders.model_deployments import model_deployment

LATIN = "für".encode("latin-1")


@pytest.mark.parametrize("content", [None, LATIN], ids=["none", "not UTF-8"])
def test_a_template_that_cannot_be_read_names_the_field_that_names_it(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.jinja").write_bytes(content)
    model = DesiredModel(model_deployment(tokenizer={"chatTemplate": {"file": "a.jinja"}}), tmp_path, 1)
    with pytest.raises(SourceError, match=r"a\.jinja cannot be read: .*spec\.tokenizer\.chatTemplate\.file") as told:
        read_chat_template(model)
    assert told.value.reason is Reason.TOKENIZER_INVALID


def test_a_folders_template_that_is_no_text_is_its_fault(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(LATIN)
    with pytest.raises(SourceError, match="cannot be read") as told:
        read_templates(tmp_path)
    assert told.value.reason is Reason.TEMPLATE_INVALID
