"""What an answer must look like, in the one form that every way of asking for it is normalised to.

`response_format`, `guided_*`, `structured_outputs`, `structural_tag` and an enforced `tool_choice` all end here; an
engine that can mask logits obeys it, a dialect with fields of its own translates it, the others refuse it.
"""

from enum import StrEnum

from conch_contracts.messages.message import Message


class GrammarKind(StrEnum):
    """What `Grammar.definition` is."""

    JSON_SCHEMA = "json_schema"
    """A JSON Schema, as JSON."""
    JSON_OBJECT = "json_object"
    """Any JSON object; the definition is empty."""
    REGEX = "regex"
    """A regular expression that the whole answer matches."""
    CHOICE = "choice"
    """A JSON list of strings: the answer is one of them."""
    GRAMMAR = "grammar"
    """A context-free grammar in Lark or EBNF notation."""
    STRUCTURAL_TAG = "structural_tag"
    """Free text in which certain tags begin a part with a schema of its own, as JSON."""


class Grammar(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A constraint on the text of an answer; what has its default is not sent."""

    kind: GrammarKind
    definition: str
    whitespace: str | None = None
    """A regular expression for the white space between JSON tokens; None: the engine's own choice."""
