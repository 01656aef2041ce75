"""What may end a choice, and what of it is shown, as its request says."""

from dataclasses import dataclass

from conch_contracts.messages.generation import GenerateRequest
from conch_llm_worker.parsing.answer_reader import marks_of
from conch_llm_worker.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class ChoiceRules:
    """What may end a choice, and what of it is shown."""

    max_tokens: int
    min_tokens: int
    eos_ids: frozenset[int]
    ending_ids: frozenset[int]
    """End-of-sequence and stop ids together."""
    stop: tuple[str, ...]
    include_stop: bool
    skip_special_tokens: bool
    spaces_between_special_tokens: bool
    logprobs: bool
    report_tokens: bool
    """Whether updates hold ids and counts of tokens."""
    marks: frozenset[str] = frozenset()
    """Special tokens that are part of the text all the same, because the answer is taken apart by them."""

    @classmethod
    def of(cls, request: GenerateRequest, vocabulary: Vocabulary) -> "ChoiceRules":
        """Read the rules out of a request; a model's stop word of one id ends like its end id, others as text."""
        sampling, backend, details = request.sampling, request.backend, request.details
        eos: set[int] = set()
        if not sampling.ignore_eos:
            eos.update(sampling.eos_token_ids, (word[0] for word in backend.stop_words if len(word) == 1))
            eos.update(() if backend.end_id is None else (backend.end_id,))
        words = [vocabulary.text(word) for word in backend.stop_words if len(word) > 1]
        return cls(
            max_tokens=sampling.max_tokens,
            min_tokens=sampling.min_tokens,
            eos_ids=frozenset(eos),
            ending_ids=frozenset(eos).union(sampling.stop_token_ids),
            stop=(*request.stop, *filter(None, words)),
            include_stop=request.include_stop_str_in_output,
            skip_special_tokens=request.skip_special_tokens,
            spaces_between_special_tokens=details is None or details.spaces_between_special_tokens,
            logprobs=request.logprobs,
            report_tokens=details is not None or request.best_of is not None,
            marks=frozenset() if request.parsing is None else marks_of(request.parsing),
        )
