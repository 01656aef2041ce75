import re

import pytest

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.parsing.tool_calls.call_ids import call_ids
from testkit.models.transcripts import thoughts, tools


@pytest.mark.parametrize(
    ("parsing", "form"),
    [
        (tools(ToolCallParser.HERMES), r"call_[0-9a-f]{24}"),
        (tools(ToolCallParser.MISTRAL), r"[A-Za-z0-9]{9}"),
        (tools(ToolCallParser.JSON), r"[A-Za-z0-9]{9}"),
        (thoughts(), r"call_[0-9a-f]{24}"),
    ],
)
def test_ids_have_the_form_that_templates_accept_and_differ(parsing: Parsing, form: str) -> None:
    new_id = call_ids(parsing)
    made = {new_id() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(form, id_) for id_ in made)
