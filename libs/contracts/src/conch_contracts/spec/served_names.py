"""The names that clients put in `model`."""

from typing import Annotated

from pydantic import Field

from conch_contracts.names import ServedName
from conch_contracts.spec.rule_types import Obeys, Rule, matching

_NameString = Annotated[
    ServedName,
    Field(max_length=253),
    matching(
        "[A-Za-z0-9][A-Za-z0-9._:/@+-]*",
        "must be a name of letters, digits and . _ : / @ + -, beginning with a letter or digit, such as team/chat-7b",
    ),
]

_NAMES = Obeys(
    Rule(
        cel="size(self) > 0",
        message="servedNames is empty: write a name, or remove servedNames to serve metadata.name",
        holds=lambda names: len(names) > 0,
    )
)
_DIFFERENT_NAMES = Obeys(
    Rule(
        cel="self.all(one, self.exists_one(other, other == one))",
        message="servedNames holds a name twice; remove one of the two",
        holds=lambda names: len(set(names)) == len(names),
    )
)
ServedNames = Annotated[tuple[_NameString, ...], Field(max_length=64), _NAMES, _DIFFERENT_NAMES]
"""The first is canonical, the others are aliases."""
