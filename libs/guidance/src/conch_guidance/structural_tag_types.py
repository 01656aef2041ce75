"""The two notations of a structural tag, as types: structures with triggers, and a tree of formats."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Schema = dict[str, object]
Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A piece of a structural tag as clients write it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ConstString(Part):
    """A fixed text."""

    type: Literal["const_string"]
    value: Text


class JsonSchema(Part):
    """JSON that obeys a schema."""

    type: Literal["json_schema"]
    json_schema: Schema


class Regex(Part):
    """Text that matches a regular expression."""

    type: Literal["regex"]
    pattern: Text


class AnyText(Part):
    """Any text, up to what comes after it."""

    type: Literal["any_text"]


class InOrder(Part):
    """One after the other."""

    type: Literal["sequence"]
    elements: "Annotated[list[Format], Field(min_length=1)]"


class OneOf(Part):
    """One of several."""

    type: Literal["or"]
    elements: "Annotated[list[Format], Field(min_length=1)]"


class Tag(Part):
    """Something between a begin and an end."""

    type: Literal["tag"] = "tag"
    begin: str
    content: "Format"
    end: str


class TriggeredTags(Part):
    """Free text in which each trigger begins one of the tags."""

    type: Literal["triggered_tags"]
    triggers: Annotated[list[Text], Field(min_length=1)]
    tags: Annotated[list[Tag], Field(min_length=1)]
    at_least_one: bool = False
    stop_after_first: bool = False


class SeparatedTags(Part):
    """Tags and nothing else, with a separator in between."""

    type: Literal["tags_with_separator"]
    tags: Annotated[list[Tag], Field(min_length=1)]
    separator: Text
    at_least_one: bool = False
    stop_after_first: bool = False


Format = Annotated[
    ConstString | JsonSchema | Regex | AnyText | InOrder | OneOf | Tag | TriggeredTags | SeparatedTags,
    Field(discriminator="type"),
]


class FormatTree(Part):
    """The newer notation."""

    type: Literal["structural_tag"] = "structural_tag"
    format: Format


class Structure(Part):
    """JSON between a begin and an end."""

    begin: Text
    content: Annotated[Schema, Field(alias="schema")]
    end: str


class Structures(Part):
    """The older notation."""

    type: Literal["structural_tag"] = "structural_tag"
    structures: Annotated[list[Structure], Field(min_length=1)]
    triggers: Annotated[list[Text], Field(min_length=1)]

    def as_format(self) -> TriggeredTags:
        """Return the same in the newer notation."""
        tags = [
            Tag(begin=one.begin, content=JsonSchema(type="json_schema", json_schema=one.content), end=one.end)
            for one in self.structures
        ]
        return TriggeredTags(type="triggered_tags", triggers=self.triggers, tags=tags)
