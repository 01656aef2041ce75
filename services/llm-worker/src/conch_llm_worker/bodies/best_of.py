"""Which of the choices that were made come back: the ones whose tokens are likeliest on average; pure.

An engine that searches with beams has put them in their order by itself.
"""

from collections.abc import Sequence

from conch_contracts.messages.generation import GenerateRequest
from conch_llm_worker.bodies.complete_body import ChoiceBody


def best(request: GenerateRequest, choices: Sequence[ChoiceBody]) -> Sequence[ChoiceBody]:
    """Return the `n` best choices of each prompt, the best first; all of them where no more were made."""
    if request.candidates == request.n:
        return choices
    chosen: list[ChoiceBody] = []
    for first in range(0, len(choices), request.candidates):
        candidates = choices[first : first + request.candidates]
        if request.sampling.beams is None:
            candidates = sorted(candidates, key=lambda choice: choice.mean_logprob, reverse=True)
        chosen += candidates[: request.n]
    return chosen
