"""The ways in which a generating request may say what its answer must look like; at most one of them at a time."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel, Options

MAX_CHOICE_CHARS = 1024
MAX_CHOICES_LISTED = 1024
MAX_REGEX_CHARS = 16 * 1024
MAX_GRAMMAR_CHARS = 64 * 1024
MAX_JSON_CHARS = 256 * 1024
MAX_WHITESPACE_CHARS = 256
MAX_BACKEND_CHARS = 256

JsonDocument = dict[str, object]
JsonText = Annotated[str, Field(min_length=1, max_length=MAX_JSON_CHARS)]
Regex = Annotated[str, Field(min_length=1, max_length=MAX_REGEX_CHARS)]
GrammarText = Annotated[str, Field(min_length=1, max_length=MAX_GRAMMAR_CHARS)]
Choices = Annotated[
    list[Annotated[str, Field(max_length=MAX_CHOICE_CHARS)]],
    Field(min_length=1, max_length=MAX_CHOICES_LISTED, fail_fast=True),
]
Whitespace = Annotated[str, Field(max_length=MAX_WHITESPACE_CHARS)]


class TextFormat(Options):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Options):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Options):
    """A JSON Schema with a name."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    document: JsonDocument = Field(alias="schema")
    """The JSON Schema."""
    description: str | None = None
    strict: bool | None = None
    """Answers obey the schema in either case."""


class JsonSchemaFormat(Options):
    """JSON that obeys a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class StructuralTagFormat(Options):
    """Text in which tags begin parts with a schema: structures with triggers, or a tree of formats."""

    type: Literal["structural_tag"]
    structures: list[JsonDocument] | None = None
    triggers: list[str] | None = None
    format: JsonDocument | None = None


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat | StructuralTagFormat, Field(discriminator="type")
]


class StructuredOutputs(Options):
    """vLLM's way of saying the same; exactly one of the first six."""

    json_: JsonDocument | JsonText | None = Field(default=None, alias="json")
    regex: Regex | None = None
    choice: Choices | None = None
    grammar: GrammarText | None = None
    json_object: bool | None = None
    structural_tag: JsonDocument | JsonText | None = None
    whitespace_pattern: Whitespace | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    disable_fallback: bool | None = None
    """Without effect: there is no second engine to fall back to."""


class StructuredFields(ApiModel):
    """What the answer must look like, in each of the words that clients have for it."""

    response_format: ResponseFormat | None = None
    """The form of the answer, in OpenAI's words."""
    structured_outputs: StructuredOutputs | None = None
    """The form of the answer, in vLLM's words."""
    structural_tag: JsonDocument | JsonText | None = None
    """What `response_format` has under the type `structural_tag`, as an object or as text."""
    guided_json: JsonDocument | JsonText | None = None
    """A JSON Schema, as an object or as text."""
    guided_regex: Regex | None = None
    """A regular expression that the whole answer matches."""
    guided_choice: Choices | None = None
    """The answer is one of these."""
    guided_grammar: GrammarText | None = None
    """A grammar in Lark or EBNF notation."""
    guided_whitespace_pattern: Whitespace | None = None
    """A regular expression for the white space between JSON tokens."""
    guided_decoding_backend: Annotated[str, Field(max_length=MAX_BACKEND_CHARS)] | None = None
    """Which of vLLM's engines is meant; each is served by the engine that the model has."""
