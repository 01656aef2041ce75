"""Where a model's files come from, and the tokenizer's settings."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from conch_contracts.spec.fields import SpecPart

PathString = Annotated[str, Field(min_length=1, max_length=4096)]


class SourceSpec(SpecPart):
    """Where the model's files come from."""

    path: PathString
    """A Hugging Face folder: relative to the file that names it on a laptop, below the engine image's /models on a
    cluster. With an external engine only its tokenizer and config files are read."""


class ChatTemplateSpec(SpecPart):
    """A chat template that replaces the one in the model's folder; exactly one field is set."""

    inline: Annotated[str, Field(min_length=1, max_length=1_000_000)] | None = None
    """The Jinja template itself."""
    file: PathString | None = None
    """A .jinja file, relative to the file that names it. On a laptop only."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.inline is None) == (self.file is None):
            raise ValueError("set exactly one of inline and file")
        return self


class TokenizerSpec(SpecPart):
    """Settings of the model's tokenizer."""

    chat_template: ChatTemplateSpec | None = None
    """The chat template to use. Default: the one in the model's folder."""
