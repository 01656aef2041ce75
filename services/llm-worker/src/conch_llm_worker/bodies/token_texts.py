"""Texts of token ids, as FastDeploy shows them beside the ids: with special tokens, and before anything is parsed."""

from collections.abc import Collection, Sequence

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.records import Profile
from conch_llm_worker.text.vocabulary import Vocabulary


class RawText:
    """What one choice's ids say, piece by piece; the end-of-sequence token is no part of it."""

    __slots__ = ("_detokenizer", "_ends", "_held")

    def __init__(self, vocabulary: Vocabulary, ends: Collection[int]) -> None:
        self._detokenizer = vocabulary.detokenizer(skip_special_tokens=False)
        self._ends = ends
        self._held: tuple[int, ...] = ()
        """An end-of-sequence token that is left out unless more comes."""

    def add(self, ids: Sequence[int], *, last: bool) -> str:
        """Take the next ids and return the text that is now certain; with `last` all that was held back."""
        known = (*self._held, *ids)
        self._held = known[-1:] if known and known[-1] in self._ends else ()
        text = self._detokenizer.feed(known[: len(known) - len(self._held)])
        return text + self._detokenizer.finish() if last else text


def shows_texts(request: GenerateRequest) -> bool:
    """Return whether the texts stand beside the ids."""
    details = request.details
    return details is not None and details.token_ids and details.profile is Profile.FASTDEPLOY


def prompt_text(request: GenerateRequest, index: int, vocabulary: Vocabulary) -> str | None:
    """Return the text of the prompt that a shown choice belongs to; None where it is not shown."""
    if not shows_texts(request):
        return None
    return RawText(vocabulary, ()).add(request.prompts[index // request.n].ids, last=True)


def made_text(request: GenerateRequest, ids: Sequence[int], vocabulary: Vocabulary) -> str | None:
    """Return the text of all ids of a choice; None where it is not shown."""
    if not shows_texts(request):
        return None
    return RawText(vocabulary, request.sampling.eos_token_ids).add(ids, last=True)
