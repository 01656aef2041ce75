import pytest

from conch_guidance.errors import UnusableGrammar
from conch_guidance.regex_inspection import inspect_regex


@pytest.mark.parametrize(
    "expression",
    [
        r"\d{3}-\d{4}",
        r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
        r"(\w+\s)*\w+",
        r"([a-z]+,)*[a-z]+",
        r'("[^"]*",)*',
        r"\[\s*(\d+\s*,\s*)*\d+\s*\]",
        r"(.*\n)*",
        r"(\t+\n)*",
        r"(\D+\d)*",
        r"(a+b)*",
        r"(ab|cd)+",
        r"(a+){2}",
        r".{0,5000}",
        r"(?P<year>\d{4})-(?:\d\d)",
        r"(\([^)]*\))*",
        r"[]a-]+[^]]*[a\-z]",
        r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}",
        r"[[:alpha:]]+", r"\p{L}+", r"(?i)abc", "(", "[", "a{", "a{x}", "a{5", "\\", "(?", "(?P<x",
        "([a&&b]+)*", "([--b]+)*", "([a~~b]+)*", "([[a]+)*",
    ],
)  # fmt: skip
def test_what_is_clear_or_cannot_be_read_here_is_left_to_the_compiler(expression: str) -> None:
    inspect_regex(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+$", "(.*a){30}", "([a-z]+)*", "(a*)*", "(x+x+)+y", r"(\w+\s?)*", "(.+, )*", "(?:(?:a|b)+)+",
        r"(\n+)+", r"([\t\f]+)*", r"(\D+)+", r"(\.+)+", r"(a+\b)+", r"(\w+[^\s])*",
        r"(\s*\w+)*", "^(([a-z])+.)+[A-Z]([a-z])+$", r"([/\w.-]*)*",
    ],
)  # fmt: skip
def test_a_repetition_whose_rounds_cannot_be_told_apart_is_refused(expression: str) -> None:
    with pytest.raises(UnusableGrammar, match="in many ways"):
        inspect_regex(expression)


@pytest.mark.parametrize("expression", ["a{1,1000000}", "a{20000}", "a{20000,}", "(a{1,1000}){1,1000}"])
def test_repetition_out_of_proportion_is_refused(expression: str) -> None:
    with pytest.raises(UnusableGrammar, match="more than 10000 times"):
        inspect_regex(expression)


def test_groups_nest_only_so_deep() -> None:
    inspect_regex("(" * 90 + "a" + ")" * 90)
    with pytest.raises(UnusableGrammar, match="nested"):
        inspect_regex("(" * 20_000 + "a" + ")" * 20_000)
