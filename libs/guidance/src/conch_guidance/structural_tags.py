"""Free text in which certain tags begin a part with a grammar of its own, written as Lark. Pure.

A tokenizer's added tokens, such as `<tool_call>`, are never made out of ordinary ones by a model that knows them, and
free text does not contain them: so wherever one stands in a fixed text, the Lark text names its id.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from llguidance import regex_to_lark
from pydantic import ValidationError

from conch_guidance.errors import UnusableGrammar
from conch_guidance.structural_tag_types import (
    AnyText,
    ConstString,
    Format,
    FormatTree,
    InOrder,
    JsonSchema,
    OneOf,
    Regex,
    SeparatedTags,
    Structures,
    Tag,
    TriggeredTags,
)

_ANY = r"/(.|\n)*/"


def lark_of_tags(definition: str, added_tokens: Mapping[str, int], options: Mapping[str, object]) -> str:
    """Return a structural tag as Lark; raises UnusableGrammar. `options` go into every schema."""
    return _Writer(added_tokens, options).write(parsed(definition))


def parsed(definition: str) -> Format:
    """Return a structural tag as formats, whichever notation it has; raises UnusableGrammar."""
    notation = Structures if "structures" in json.loads(definition) else FormatTree
    try:
        tree = notation.model_validate_json(definition)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the structural tag"
        raise UnusableGrammar(f"{where}: {first['msg']}") from None
    return tree.as_format() if isinstance(tree, Structures) else tree.format


class _Writer:
    """Collects the rules of one Lark text."""

    def __init__(self, added_tokens: Mapping[str, int], options: Mapping[str, object]) -> None:
        self._added = added_tokens
        self._options = options
        self._rules: list[str] = []
        longest_first = sorted(added_tokens, key=len, reverse=True)
        self._splitter = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def write(self, root: Format) -> str:
        start = self._of(root)
        return "\n".join(["%llguidance {}", f"start: {start}", f"TEXT: {_ANY}", *self._rules, ""])

    def _of(self, part: Format) -> str:
        match part:
            case ConstString():
                return self._text(part.value)
            case JsonSchema():
                return "%json " + json.dumps({**part.json_schema, "x-guidance": self._options})
            case Regex():
                return f"/{regex_to_lark(part.pattern, use_ascii='')}/"
            case AnyText():
                return "TEXT"
            case InOrder():
                return " ".join(self._of(element) for element in part.elements)
            case OneOf():
                return self._one_of([self._of(element) for element in part.elements])
            case Tag():
                return f"{self._text(part.begin)} {self._rest(part)}"
            case TriggeredTags():
                return self._triggered(part)
            case SeparatedTags():
                return self._separated(part)
            case _:
                assert_never(part)

    def _rest(self, tag: Tag) -> str:
        """Return a tag without its begin."""
        pieces = list(self._pieces(tag.end))
        if isinstance(tag.content, AnyText) and pieces and pieces[0].startswith('"'):
            # Any text up to the first end, not up to the last one.
            return " ".join([self._rule(f"{_ANY} {pieces[0]}", lazy=True), *pieces[1:]])
        return " ".join([self._of(tag.content), *pieces])

    def _triggered(self, part: TriggeredTags) -> str:
        tags = self._one_of([self._triggered_tag(tag, part.triggers) for tag in part.tags])
        if part.stop_after_first:
            return tags if part.at_least_one else self._one_of([tags, "TEXT"])
        return f"{tags}{'+' if part.at_least_one else '*'} TEXT"

    def _triggered_tag(self, tag: Tag, triggers: Sequence[str]) -> str:
        """Return free text and a tag after it."""
        trigger = next((one for one in triggers if tag.begin.startswith(one)), None)
        if trigger is None:
            raise UnusableGrammar(f"no trigger begins the tag {tag.begin[:50]!r}")
        first, *more = self._pieces(trigger)
        if not first.startswith('"'):
            return f"TEXT {self._text(tag.begin)} {self._rest(tag)}"
        head = self._rule(f"TEXT {first}", lazy=True)
        return " ".join([head, *more, *self._pieces(tag.begin.removeprefix(trigger)), self._rest(tag)])

    def _separated(self, part: SeparatedTags) -> str:
        tags = self._one_of([self._of(tag) for tag in part.tags])
        if not part.stop_after_first:
            tags = f"({tags} ({self._text(part.separator)} {tags})*)"
        return tags if part.at_least_one else f"{tags}?"

    def _text(self, text: str) -> str:
        return " ".join(self._pieces(text)) or '""'

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield a fixed text as literals and token ids."""
        done = 0
        for found in self._splitter.finditer(text):
            if found.start() > done:
                yield json.dumps(text[done : found.start()], ensure_ascii=False)
            yield f"<[{self._added[found.group()]}]>"
            done = found.end()
        if done < len(text):
            yield json.dumps(text[done:], ensure_ascii=False)

    def _one_of(self, alternatives: Sequence[str]) -> str:
        return "(" + " | ".join(map(self._rule, alternatives)) + ")"

    def _rule(self, body: str, *, lazy: bool = False) -> str:
        name = f"part_{len(self._rules)}"
        self._rules.append(f"{name}{'[lazy]' if lazy else ''}: {body}")
        return name
