"""Pure: what a client calls the texts of its request, for errors that must name one of them.

Behind the gateway the texts are rows that are counted. A request has `input`, or `documents`, or `text_1` and
`text_2`, and so on, each with one text or with a list of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class TextField:
    """One field of a request."""

    name: str
    count: int | None = None
    """How many texts its list has; None when the field is one text itself."""

    def name_of(self, index: int) -> str:
        """Return the name of one of its texts."""
        return self.name if self.count is None else f"{self.name}.{index}"


@dataclass(frozen=True, slots=True)
class TextNames:
    """The fields whose texts became a request's rows, in the order of the rows."""

    fields: tuple[TextField, ...]
    first: TextField | None = None
    """Of pairs: the field of their first texts; `fields` has the second ones."""
    cut: str = "set 'truncate_prompt_tokens'"
    """What a client can do about a text that is too long."""
    renamed: Mapping[str, str] = dataclass_field(default_factory=dict)
    """The client's names of parameters that the worker calls otherwise."""

    @property
    def whole(self) -> str:
        """The name for what is wrong with all texts together."""
        return self.fields[-1].name

    def of_row(self, row: int) -> str:
        """Return the client's name of a row."""
        index = row
        for field in self.fields[:-1]:
            size = 1 if field.count is None else field.count
            if index < size:
                return field.name_of(index)
            index -= size
        return self.fields[-1].name_of(index)

    def of_first(self, row: int, firsts: Sequence[int], limit: int) -> tuple[str, int] | None:
        """Return the name and the length of a row's first text, if that alone leaves no room for a second one.

        `firsts` are the lengths of the first texts: one for all rows, or one for each.
        """
        if self.first is None or not firsts:
            return None
        index = row % len(firsts)
        return None if firsts[index] < limit else (self.first.name_of(index), firsts[index])

    def of(self, param: str | None) -> str | None:
        """Return the client's name of what the tokenizer calls `rows` or `rows.<n>`; other names are the client's."""
        if param == _ROWS:
            return self.whole
        name, _, row = (param or "").partition(".")
        return self.of_row(int(row)) if name == _ROWS and row.isdecimal() else self.renamed.get(name, param)


def text_field(name: str, texts: object) -> TextField:
    """Return the field that holds these texts: a list of them, or a single one."""
    return TextField(name, len(texts) if isinstance(texts, list) else None)
