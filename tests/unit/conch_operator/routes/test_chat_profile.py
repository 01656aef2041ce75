"""In which forms a model thinks and calls tools."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from conch_contracts.records import ChatProfile, ContentFormat, ModelKind
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_operator.model_folder.reader import FolderNeeds, read_folder
from conch_operator.routes.chat_profile import chat_profile, shown_by
from testkit.builders.model_deployments import FACTS, desired_model
from testkit.processes.conch_up import ROOT

TEMPLATES = {
    "{% for m in messages %}{{ m.content }}{% endfor %}": (ReasoningParser.NONE, ToolCallParser.NONE, False),
    "{%- if tools %}<tool_call>{% endif %}</think>": (ReasoningParser.THINK, ToolCallParser.HERMES, True),
    "{%- if tools is defined %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS][THINK]": (
        ReasoningParser.MISTRAL,
        ToolCallParser.MISTRAL,
        True,
    ),
    '{{ tools | tojson }}<|start_header_id|>{"name": function name, "parameters": {}}': (
        ReasoningParser.NONE,
        ToolCallParser.LLAMA3,
        True,
    ),
    "{% if tools %}<tool_call><function=x><parameter=y>{% endif %}": (
        ReasoningParser.NONE,
        ToolCallParser.QWEN3_CODER,
        True,
    ),
    "{% if tools %}<tool_call>f<arg_key>k</arg_key>{% endif %}": (ReasoningParser.NONE, ToolCallParser.GLM, True),
    "{{ tools }}<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>": (
        ReasoningParser.NONE,
        ToolCallParser.KIMI_K2,
        True,
    ),
    '{{ tools }}<|header_start|>[func_name1(params_name1=params_value1)] "parameters"': (
        ReasoningParser.NONE,
        ToolCallParser.PYTHONIC,
        True,
    ),
    '{{ tools }}<|header_start|>{"name": function name, "parameters": {}}': (
        ReasoningParser.NONE,
        ToolCallParser.LLAMA3,
        True,
    ),
    "<｜tool▁call▁begin｜>function</think>": (ReasoningParser.THINK, ToolCallParser.DEEPSEEK, False),
    "<seed:think>": (ReasoningParser.SEED, ToolCallParser.NONE, False),
    "Here is my thought process: tools": (ReasoningParser.GRANITE, ToolCallParser.NONE, False),
}


@pytest.mark.parametrize(("template", "shown"), TEMPLATES.items())
def test_a_template_shows_the_forms(template: str, shown: tuple[ReasoningParser, ToolCallParser, bool]) -> None:
    assert shown_by(template) == ChatProfile(reasoning=shown[0], tool_calls=shown[1], takes_tools=shown[2])


def test_what_the_deployment_says_wins() -> None:
    facts = replace(FACTS, chat=shown_by("{% if tools %}<tool_call></think>{% endif %}"))
    found = chat_profile(desired_model(generation={"toolCallParser": "none"}).deployment.spec, facts)
    assert found == ChatProfile(reasoning=ReasoningParser.THINK, takes_tools=True)
    found = chat_profile(desired_model(generation={"reasoningParser": "deepseek-r1"}).deployment.spec, facts)
    assert (found.reasoning, found.tool_calls) == (ReasoningParser.DEEPSEEK_R1, ToolCallParser.HERMES)


@pytest.mark.parametrize("kind", [ModelKind.LLM, ModelKind.EMBEDDING])
def test_the_form_of_content_is_told_of_models_of_every_kind(kind: ModelKind) -> None:
    said = desired_model(kind=kind.value, tokenizer={"contentFormat": "openai"}).deployment.spec
    assert chat_profile(said, FACTS) == ChatProfile(content_format=ContentFormat.OPENAI)
    assert chat_profile(desired_model(kind=kind.value).deployment.spec, FACTS) == ChatProfile()


def test_a_template_of_the_deployment_is_looked_at_instead_of_the_folders() -> None:
    facts = replace(FACTS, chat=shown_by("{% if tools %}<tool_call>{% endif %}"), chat_template="{{ messages }}")
    assert chat_profile(desired_model().deployment.spec, facts) == ChatProfile()


def test_the_template_of_the_example_shows_its_forms() -> None:
    settings = json.loads((ROOT / "examples" / "tiny-chat" / "tokenizer_config.json").read_text())
    assert shown_by(settings["chat_template"]) == ChatProfile(
        reasoning=ReasoningParser.THINK, tool_calls=ToolCallParser.HERMES, takes_tools=True
    )


def test_of_several_named_templates_each_counts(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "tiny-chat").glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings["chat_template"] = [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "{% if tools %}[TOOL_CALLS]{% endif %}"},
    ]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = read_folder(tmp_path, FolderNeeds(weights=False, config=True, template=True)).chat
    assert found == ChatProfile(tool_calls=ToolCallParser.MISTRAL, takes_tools=True)
