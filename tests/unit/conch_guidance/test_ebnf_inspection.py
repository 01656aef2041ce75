import pytest

from conch_guidance.ebnf_inspection import inspect_ebnf
from conch_guidance.errors import UnusableGrammar


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
    inspect_ebnf(grammar)


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
        inspect_ebnf(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a" root',
        'root ::= "a" b\nb ::= [c-d] root',
        'root ::= "a" | "b" c\nc ::= ("x" c)+ | "y" c',
        'root ::= "a" (root "b"){2,3}',
    ],
)
def test_a_rule_that_never_ends_is_refused(grammar: str) -> None:
    with pytest.raises(UnusableGrammar, match="never ends"):
        inspect_ebnf(grammar)


@pytest.mark.parametrize("grammar", ['root ::= "a"{1000000}', 'root ::= ("a"{200} "b"){100}', "root ::= [a-z]{10001,}"])
def test_a_part_is_repeated_only_so_often(grammar: str) -> None:
    with pytest.raises(UnusableGrammar, match="more than 10000 times"):
        inspect_ebnf(grammar)


def test_a_long_chain_of_rules_is_looked_at_in_one_go() -> None:
    inspect_ebnf("".join(f'r{n} ::= "x" r{n + 1} | "y"\n' for n in range(3_000)) + 'r3000 ::= "a"')


def test_brackets_nest_only_so_deep() -> None:
    with pytest.raises(UnusableGrammar, match="nested"):
        inspect_ebnf("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000)
