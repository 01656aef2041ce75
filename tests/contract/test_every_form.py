"""A form of tool calls, a way of thinking, a dialect or a runtime is in every table that must know it.

Types cannot tell: these tables are mappings, pages and the tests' own scripts. docs/adding.md says how to add one.
"""

from pathlib import Path

import pytest

from conch_contracts.capabilities import CAPABILITIES
from conch_contracts.openai.audio import TranscriptionRequest, TranslationRequest
from conch_contracts.records import Dialect
from conch_contracts.spec.runtimes import Runtime
from conch_contracts.speech_capabilities import SPEECH_CAPABILITIES, SpeechFeature
from conch_contracts.thinking_marks import THINKING_MARKS, ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.parsing.tool_calls.parsers import PARSERS
from testkit.builders.every_runtime import SPECS
from testkit.engines.dialect_stand_ins import PER_DIALECT
from testkit.models.transcripts import TRANSCRIPTS

DOCS = Path(__file__).parents[2] / "docs"
FORMS = sorted(set(ToolCallParser) - {ToolCallParser.NONE})
WAYS = sorted(set(ReasoningParser) - {ReasoningParser.NONE})
GENERATING = sorted(dialect for dialect in Dialect if not dialect.transcribes and dialect is not Dialect.ENCODER)
"""Those whose engines obey what `capabilities` knows."""
TRANSCRIBING = sorted(dialect for dialect in Dialect if dialect.transcribes)


def _rows(page: str) -> set[str]:
    """Return the first cells of a page's tables, where they are a word of code."""
    cells = (line.split("|")[1].strip() for line in (DOCS / page).read_text().splitlines() if line.startswith("| `"))
    return {cell.strip("`") for cell in cells}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_calls_has_a_parser_transcripts_and_a_row(form: ToolCallParser) -> None:
    played = {transcript.parsing.calls.parser for transcript in TRANSCRIPTS if transcript.parsing.calls is not None}
    assert form in PARSERS
    assert form in played
    assert form in _rows("tools.md")


@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_thinking_has_marks_transcripts_and_a_row(way: ReasoningParser) -> None:
    played = {script.parsing.thinking.parser for script in TRANSCRIPTS if script.parsing.thinking is not None}
    assert way in THINKING_MARKS
    assert way in played
    assert way in _rows("tools.md")


@pytest.mark.parametrize("dialect", GENERATING)
def test_a_dialect_has_capabilities_a_stand_in_and_a_row(dialect: Dialect) -> None:
    assert dialect in CAPABILITIES
    assert dialect in {stand_in.dialect for stand_in in PER_DIALECT}
    assert dialect in _rows("architecture.md")


@pytest.mark.parametrize("runtime", sorted(Runtime))
def test_a_runtime_is_rendered_and_has_a_row(runtime: Runtime) -> None:
    assert any(runtime in spec["engine"] for spec in SPECS.values())
    assert runtime in _rows("runtimes.md")


@pytest.mark.parametrize("dialect", TRANSCRIBING)
def test_a_dialect_of_speech_has_capabilities_and_a_row(dialect: Dialect) -> None:
    assert set(SPEECH_CAPABILITIES[dialect]) == set(SpeechFeature)
    assert dialect in _rows("architecture.md")


def test_every_field_of_a_form_with_a_file_is_in_the_table_of_speech() -> None:
    """Those but that every endpoint has, which no engine is told."""
    fields = set(TranscriptionRequest.model_fields) | set(TranslationRequest.model_fields)
    known = {param for feature in SpeechFeature for param in feature.params}
    assert fields - known == {"model", "priority", "request_id", "user"}
    assert known <= fields
    assert {f"`{name}`" for name in known} <= set((DOCS / "backends.md").read_text().replace("`, ", "` ").split())
