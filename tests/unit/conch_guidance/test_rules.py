import pytest

from conch_guidance.errors import UnusableGrammar
from conch_guidance.rules import inspect_rules


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a" root | "a"',
        'root ::= item ("," item)*\nitem ::= [0-9]+',
        'root ::= "(" root ")" | ""',
        'start: list\nlist: "x" | list ",x"',  # Lark, where left recursion is usual
        "what is this ::=",
        "nothing of the kind",
        'root ::= "a\\',
    ],
)
def test_other_grammars_are_left_to_the_compiler(grammar: str) -> None:
    inspect_rules(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= root "a" | "a"',
        "root ::= root",
        'root ::= a "x"\na ::= b\nb ::= a | "y"',
        'root ::= space root | "x"\nspace ::= [ ]* ""',
        'root ::= ("" | "a"?) root "b" | "c"',
        'root ::= (root "a")+',
    ],
)
def test_a_rule_that_begins_with_itself_is_refused(grammar: str) -> None:
    with pytest.raises(UnusableGrammar, match="begins with itself"):
        inspect_rules(grammar)


def test_brackets_nest_only_so_deep() -> None:
    with pytest.raises(UnusableGrammar, match="nested"):
        inspect_rules("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000)
