"""In which form a template takes what messages say."""

import time

import jinja2
import pytest

from conch_tokenizer.text.content_format import AcceptedContent, accepted_by, accepted_content
from testkit.models.content_templates import OF_EITHER, OF_PARTS, OF_TEXTS

IN_PROPORTION_S = 30
"""A guard against work that grows with the square of a template's length: what it needs is less than a second."""


@pytest.mark.parametrize(
    ("templates", "found"),
    [(OF_TEXTS, AcceptedContent.TEXTS), (OF_PARTS, AcceptedContent.PARTS), (OF_EITHER, AcceptedContent.EITHER)],
)
def test_a_loop_over_content_shows_and_so_does_the_question_before_it(
    templates: dict[str, str], found: AcceptedContent
) -> None:
    assert {name: accepted_content(template) for name, template in templates.items()} == dict.fromkeys(templates, found)


@pytest.mark.parametrize(
    "template",
    [
        "".join(f"{{% set a{n} = a{n + 1} %}}" for n in range(5000)) + "{% set a5000 = messages %}",
        "{% set b = messages %}" * 5000 + "{% for x in b %}{% endfor %}" * 2000,
        "".join(f"{{% set m{n} = messages %}}{{% for x in m{n} %}}{{% endfor %}}" for n in range(2500)),
        "{% for x in messages " + "| list " * 150 + "%}{% endfor %}",
        "{% for x in " + " or ".join(["messages"] * 10_000) + " %}{% endfor %}",
    ],
    ids=["a chain", "the same again", "many names", "filters", "choices"],
)
def test_the_work_is_in_proportion_to_the_template(template: str) -> None:
    began = time.process_time()
    assert accepted_by(jinja2.Environment().parse(template)) is AcceptedContent.TEXTS
    assert time.process_time() - began < IN_PROPORTION_S


def test_what_does_not_compile_has_no_format() -> None:
    with pytest.raises(jinja2.TemplateSyntaxError):
        accepted_content("{% for message in messages %}")
