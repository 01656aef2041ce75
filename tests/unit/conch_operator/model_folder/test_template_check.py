"""What the tokenizer would refuse to compile is refused before a model is ready, and nothing else is."""

import sys
from pathlib import Path

import jinja2
import pytest
from transformers.utils import chat_template_utils

from conch_operator.model_folder import template_check
from conch_operator.model_folder.errors import TemplateUnchecked
from conch_operator.model_folder.template_check import MAX_CHARACTERS, fault_in

GOOD = (
    "{% for message in messages %}{{ message.content | trim }}{% endfor %}",
    "{% generation %}{{ 'a' }}{% endgeneration %}",
    "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% break %}{% endfor %}",
    "{{ raise_exception('no') }}{{ strftime_now('%Y') }}{{ tools | tojson(indent=2) }}",
    "{%- set ns = namespace(found=false) -%}{%- macro a(b) -%}{{ b }}{%- endmacro -%}{{ a(ns.found) }}",
    "{{ ''.__class__.__mro__ }}",
)
BAD = (
    ("{% for m in messages %}", "line 1: Unexpected end of template"),
    ("one\n{{ two", "line 2: unexpected end of template"),
    ("one\n\n{% endfor %}", "line 3: Encountered unknown tag 'endfor'"),
    ("{{ a | nofilter }}", "line 1: No filter named 'nofilter'"),
    ("{% generation %}", "line 1: Unexpected end of template"),
    ("{% include %}", "line 1: "),
)


@pytest.mark.parametrize("template", GOOD)
def test_what_compiles_is_accepted(template: str) -> None:
    chat_template_utils._compile_jinja_template(template)
    assert fault_in(template) is None


@pytest.mark.parametrize(("template", "says"), BAD)
def test_row_29_what_does_not_compile_is_named_with_its_line(template: str, says: str) -> None:
    with pytest.raises(jinja2.TemplateSyntaxError):
        chat_template_utils._compile_jinja_template(template)
    fault = fault_in(template)
    assert fault is not None
    assert says in fault


def test_time_is_counted_by_the_processor_so_no_load_makes_a_template_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_check, "_TIMEOUT_S", 100.0)  # a busy machine has no 2 s of a processor in 10 s
    assert fault_in("{{ 7**30000000 }}") == "it needs more time to compile than it may have"


def test_a_text_that_needs_more_memory_than_a_compiler_may_have_is_not_made() -> None:
    assert fault_in("{{ 'a' * 600000000 }}") is None, "Making it takes longer than a compiler may run."


@pytest.mark.parametrize(
    ("interpreter", "says"),
    [
        ("#!/bin/sh\nkill -9 $$\n", "ended with status -9"),
        ("#!/bin/sh\nexit 1\n", "ended with status 1"),
        (None, "cannot be started: No such file or directory"),
    ],
)
def test_a_compiler_that_fails_by_itself_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str | None, says: str
) -> None:
    broken, template = tmp_path / "python", f"{{{{ '{says}' }}}}"
    if interpreter is not None:
        broken.write_text(interpreter)
        broken.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(broken))
        with pytest.raises(TemplateUnchecked, match=says):
            fault_in(template)
    assert fault_in(template) is None


def test_a_compiler_that_does_not_end_gives_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(template_check, "_TIMEOUT_S", 0.05)
    with pytest.raises(TemplateUnchecked, match="has not ended within"):
        fault_in("{{ 'hangs' }}")


@pytest.mark.parametrize("template", ["{{ 'a' * 10**10 }}", "{{ 9**9**9 }}", "{{ " + "(" * 20_000, "{{ 1 / 0 }}"])
def test_row_29_a_template_cannot_harm_who_compiles_it(template: str) -> None:
    fault_in(template)


def test_row_29_a_template_of_a_megabyte_is_refused() -> None:
    assert fault_in("a" * 2**20) == f"it has {2**20} characters, at most {MAX_CHARACTERS} are allowed"
