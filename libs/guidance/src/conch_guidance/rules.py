"""Refuses grammars in EBNF whose rules begin with themselves. Pure.

The engines for which this notation was made descend into such a rule for ever. Lark's notation is for parsers that do
not, so left recursion is the usual way to write a list there, and is allowed.
"""

from collections.abc import Iterator, Mapping, Set

from llguidance.gbnf_to_lark import (
    AlternativeNode,
    ASTNode,
    GbnfToLarkError,
    GrammarParser,
    LiteralNode,
    RepetitionNode,
    RuleRefNode,
    SequenceNode,
    is_lark_syntax,
)

from conch_guidance.errors import UnusableGrammar


def inspect_rules(text: str) -> None:
    """Look at a grammar; raises UnusableGrammar. What is no EBNF is left to the compiler."""
    if is_lark_syntax(text) or "::=" not in text:
        return
    try:
        rules = {name: rule.alternatives for name, rule in GrammarParser().parse(text).items()}
    except (GbnfToLarkError, IndexError):
        return
    except RecursionError:
        raise UnusableGrammar("the grammar is nested too deeply") from None
    empty = _possibly_empty(rules)
    begins = {name: frozenset(_beginnings(body, empty)) & rules.keys() for name, body in rules.items()}
    for name in rules:
        if name in _reachable(name, begins):
            raise UnusableGrammar(f"the rule {name!r} begins with itself")


def _possibly_empty(rules: Mapping[str, ASTNode]) -> Set[str]:
    """Return the rules that match the empty text."""
    found: frozenset[str] = frozenset()
    while True:
        now = frozenset(name for name, body in rules.items() if _is_empty(body, found))
        if now == found:
            return found
        found = now


def _is_empty(node: ASTNode, empty: Set[str]) -> bool:
    match node:
        case LiteralNode(value=value):
            return not value
        case RuleRefNode(name=name):
            return name in empty
        case RepetitionNode(node=inner, min_times=least):
            return least == 0 or _is_empty(inner, empty)
        case SequenceNode(nodes=nodes):
            return all(_is_empty(one, empty) for one in nodes)
        case AlternativeNode(alternatives=alternatives):
            return any(_is_empty(one, empty) for one in alternatives)
        case _:
            return False


def _beginnings(node: ASTNode, empty: Set[str]) -> Iterator[str]:
    """Yield the rules that a text of this node may begin with."""
    match node:
        case RuleRefNode(name=name):
            yield name
        case SequenceNode(nodes=nodes):
            for one in nodes:
                yield from _beginnings(one, empty)
                if not _is_empty(one, empty):
                    return
        case _:
            for one in node.children():
                yield from _beginnings(one, empty)


def _reachable(name: str, begins: Mapping[str, Set[str]]) -> Set[str]:
    found: set[str] = set()
    ahead = list(begins[name])
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead += begins[one]
    return found
