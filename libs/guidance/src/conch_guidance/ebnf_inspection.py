"""Refuses grammars in EBNF whose rules begin with themselves, never end, or repeat a part out of proportion. Pure.

The engines for which this notation was made descend into a rule that begins with itself for ever. Lark's notation is
for parsers that do not, so left recursion is the usual way to write a list there, and is allowed.
"""

from collections.abc import Callable, Iterator, Mapping, Set

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
from conch_guidance.regex_inspection import MAX_REPEAT


def inspect_ebnf(text: str) -> None:
    """Look at a grammar; raises UnusableGrammar. What is no EBNF is left to the compiler."""
    if is_lark_syntax(text) or "::=" not in text:
        return
    try:
        rules = {name: rule.alternatives for name, rule in GrammarParser().parse(text).items()}
    except (GbnfToLarkError, IndexError):
        return
    except RecursionError:
        raise UnusableGrammar("the grammar is nested too deeply") from None
    for name, body in rules.items():
        if _most(body) > MAX_REPEAT:
            raise UnusableGrammar(f"the rule {name!r} repeats a part more than {MAX_REPEAT} times")
    empty = _matching(rules, _is_empty)
    begins = {name: frozenset(_beginnings(body, empty)) & rules.keys() for name, body in rules.items()}
    for name in rules:
        if name in _reachable(name, begins):
            raise UnusableGrammar(f"the rule {name!r} begins with itself")
    ending = _matching(rules, lambda node, known: _ends(node, known, rules))
    for name in rules:
        if name not in ending:
            raise UnusableGrammar(f"the rule {name!r} demands itself again and again, so it never ends")


def _matching(rules: dict[str, ASTNode], holds: Callable[[ASTNode, Set[str]], bool]) -> Set[str]:
    """Return the rules of which something holds that depends on the rules in them."""
    found: set[str] = set()
    before = -1
    while before < len(found):
        before = len(found)
        for name, body in reversed(rules.items()):  # most rules name later ones
            if name not in found and holds(body, found):
                found.add(name)
    return found


def _ends(node: ASTNode, ending: Set[str], rules: Mapping[str, ASTNode]) -> bool:
    match node:
        case RuleRefNode(name=name):
            return name in ending or name not in rules
        case RepetitionNode(node=inner, min_times=least):
            return least == 0 or _ends(inner, ending, rules)
        case AlternativeNode(alternatives=alternatives):
            return any(_ends(one, ending, rules) for one in alternatives)
        case _:
            return all(_ends(one, ending, rules) for one in node.children())


def _most(node: ASTNode) -> int:
    """Return how often the innermost part of nested repetitions may be repeated."""
    inner = max(map(_most, node.children()), default=1)
    if not isinstance(node, RepetitionNode):
        return inner
    return inner * max(1, node.min_times if node.max_times is None else node.max_times)


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
