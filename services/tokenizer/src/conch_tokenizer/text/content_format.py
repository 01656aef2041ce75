"""Whether a chat template takes what messages say as texts or in parts, seen in its syntax tree.

A name in a template may stand for the messages, for one of them, or for what it says. From `messages` on this is
followed through `for`, `set`, `with`, namespaces and the arguments of macros. Which branch is taken when is not known
here, so what may be counts. A template is somebody else's program, so the work is in proportion to its length, and
nothing here calls itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables
from transformers.utils.chat_template_utils import _compile_jinja_template

_KEPT = 128
"""Templates whose answers are remembered: as many as transformers keeps compiled."""


class AcceptedContent(Enum):
    """What a template can make something of."""

    TEXTS = auto()
    """It has no loop over the content of a message."""
    PARTS = auto()
    """It has one that may meet a text, of which it would get single letters."""
    EITHER = auto()
    """It asks first whether the content is a text."""


class _Thing(Enum):
    """What a name may stand for."""

    MESSAGES = auto()
    MESSAGE = auto()
    CONTENT = auto()


Step: TypeAlias = Mapping[_Thing, _Thing]
"""What an expression makes of what the name in it stands for."""

_SAME: Step = MappingProxyType({thing: thing for thing in _Thing})
_ONE_OF: Step = MappingProxyType({_Thing.MESSAGES: _Thing.MESSAGE})
_CONTENT_OF: Step = MappingProxyType({_Thing.MESSAGE: _Thing.CONTENT})


class _Symbol(NamedTuple):
    """A name; those of a macro's parameters belong to the macro, all others to the template."""

    name: str
    macro: str = ""


@dataclass(frozen=True, slots=True)
class _Scope:
    """A macro, and the one around it."""

    macro: str
    parameters: frozenset[str]
    outer: "_Scope | None"


class _Use(Enum):
    """What is done with a value beside naming it."""

    LOOP = auto()
    TEST = auto()
    """Whether it is a text."""


class _Flow(NamedTuple):
    """That a name gets its value from another one, or what is done with that value."""

    source: _Symbol
    step: Step
    target: _Symbol | _Use


Scoped: TypeAlias = tuple[nodes.Node, _Scope | None]


@lru_cache(maxsize=_KEPT)
def accepted_content(template: str) -> AcceptedContent:
    """Return what a template takes; raises what compiling it raises, which is what rendering would raise."""
    tree: nodes.Template = _compile_jinja_template(template).environment.parse(template)
    return accepted_by(tree)


@lru_cache(maxsize=_KEPT)
def reads_documents(template: str) -> bool:
    """Tell whether a template puts documents into the prompt; raises what compiling it raises."""
    return "documents" in find_undeclared_variables(_compile_jinja_template(template).environment.parse(template))


def accepted_by(template: nodes.Template) -> AcceptedContent:
    """Return what a template takes as the content of messages."""
    flows: defaultdict[_Symbol, list[_Flow]] = defaultdict(list)
    for flow in _flows(template):
        flows[flow.source].append(flow)
    looped, tested, passed_on = set[_Symbol](), set[_Symbol](), defaultdict[_Symbol, set[_Symbol]](set)
    beginning = (_Symbol("messages"), _Thing.MESSAGES)
    known, waiting = {beginning}, [beginning]
    while waiting:
        symbol, thing = waiting.pop()
        for _, step, target in flows[symbol]:
            found = step.get(thing)
            if found is None:
                continue
            if isinstance(target, _Symbol):
                if found is _Thing.CONTENT:
                    passed_on[symbol].add(target)
                if (state := (target, found)) not in known:
                    known.add(state)
                    waiting.append(state)
            elif found is _Thing.CONTENT:
                (looped if target is _Use.LOOP else tested).add(symbol)
    if not looped:
        return AcceptedContent.TEXTS
    return AcceptedContent.EITHER if looped <= _reached(tested, passed_on) else AcceptedContent.PARTS


def _reached(symbols: Iterable[_Symbol], passed_on: Mapping[_Symbol, Iterable[_Symbol]]) -> set[_Symbol]:
    """Return these names, and those that get the content of messages from them."""
    reached, waiting = set[_Symbol](), list(symbols)
    while waiting:
        if (symbol := waiting.pop()) not in reached:
            reached.add(symbol)
            waiting.extend(passed_on.get(symbol, ()))
    return reached


def _flows(template: nodes.Template) -> Iterator[_Flow]:
    scoped = list(_scoped(template))
    macros = {node.name: node for node, _ in scoped if isinstance(node, nodes.Macro)}
    for node, scope in scoped:
        match node:
            case nodes.For():
                for source, step in _sources(node.iter, scope):
                    yield _Flow(source, step, _Use.LOOP)
                    yield from _to(node.target, source, _behind(step, _ONE_OF), scope)
            case nodes.Test(name="string"):
                yield from (_Flow(source, step, _Use.TEST) for source, step in _sources(node.node, scope))
            case nodes.Assign():
                for source, step in _sources(node.node, scope):
                    yield from _to(node.target, source, step, scope)
            case nodes.With():
                for target, value in zip(node.targets, node.values, strict=True):
                    for source, step in _sources(value, scope):
                        yield from _to(target, source, step, scope)
            case nodes.Call(node=nodes.Name(name=name)) if name in macros:
                for parameter, value in _arguments(node, macros[name]):
                    for source, step in _sources(value, scope):
                        yield _Flow(source, step, _Symbol(parameter, name))


def _scoped(template: nodes.Template) -> Iterator[Scoped]:
    """Return all nodes, each with the macro that it is in."""
    waiting: list[Scoped] = [(template, None)]
    while waiting:
        node, scope = waiting.pop()
        yield node, scope
        if isinstance(node, nodes.Macro):
            scope = _Scope(node.name, frozenset(parameter.name for parameter in node.args), scope)
        waiting.extend((child, scope) for child in node.iter_child_nodes())


def _sources(expression: nodes.Node, scope: _Scope | None) -> Iterator[tuple[_Symbol, Step]]:
    """Return the names that an expression's value may come from, and what the expression makes of it."""
    waiting: list[tuple[nodes.Node, Step]] = [(expression, _SAME)]
    while waiting:
        node, step = waiting.pop()
        match node:
            case nodes.Name(name=name):
                yield _symbol(name, scope), step
            case nodes.Filter(node=nodes.Expr() as filtered):
                waiting.append((filtered, step))
            case nodes.CondExpr(expr1=one, expr2=other):
                waiting.extend((choice, step) for choice in (one, other) if choice is not None)
            case nodes.And(left=one, right=other) | nodes.Or(left=one, right=other):
                waiting.extend(((one, step), (other, step)))
            case nodes.Getitem(node=whole, arg=nodes.Slice()):
                waiting.append((whole, step))
            case (
                nodes.Getitem(node=whole, arg=nodes.Const(value="content"))
                | nodes.Call(node=nodes.Getattr(node=whole, attr="get"), args=[nodes.Const(value="content"), *_])
            ):
                waiting.append((whole, _behind(_CONTENT_OF, step)))
            case nodes.Getitem(node=whole):
                waiting.append((whole, _behind(_ONE_OF, step)))
            case nodes.Getattr(node=whole, attr=attribute):
                if isinstance(whole, nodes.Name):
                    yield _attribute(whole.name, attribute), step
                if attribute == "content":
                    waiting.append((whole, _behind(_CONTENT_OF, step)))


def _to(target: nodes.Node, source: _Symbol, step: Step, scope: _Scope | None) -> Iterator[_Flow]:
    match target:
        case nodes.Name(name=name):
            yield _Flow(source, step, _symbol(name, scope))
        case nodes.NSRef(name=name, attr=attribute):
            yield _Flow(source, step, _attribute(name, attribute))


def _arguments(call: nodes.Call, macro: nodes.Macro) -> Iterator[tuple[str, nodes.Expr]]:
    yield from zip((parameter.name for parameter in macro.args), call.args, strict=False)
    yield from ((argument.key, argument.value) for argument in call.kwargs if isinstance(argument, nodes.Keyword))


def _symbol(name: str, scope: _Scope | None) -> _Symbol:
    while scope is not None:
        if name in scope.parameters:
            return _Symbol(name, scope.macro)
        scope = scope.outer
    return _Symbol(name)


def _attribute(namespace: str, name: str) -> _Symbol:
    return _Symbol(f"{namespace}.{name}")


def _behind(first: Step, then: Step) -> Step:
    """Return both steps as one."""
    return {thing: then[found] for thing, found in first.items() if found in then}
