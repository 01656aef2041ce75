"""The JSON body of a response that is not streamed: what `bodies.complete_body` is to the other two APIs."""

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.responses.item_sequence import Output
from conch_llm_worker.responses.response_object import ResponseBody, item_status
from conch_llm_worker.text.vocabulary import Vocabulary


class CompleteResponse:
    """One response object, as it is collected."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary) -> None:
        self._body = ResponseBody(request)
        self._output = Output(request, vocabulary)
        self._finish = ChoiceFinish("stop")

    def add(self, update: ChoiceUpdate) -> None:
        """Take one update."""
        if update.finish is not None:
            self._finish = update.finish
        self._output.add(update)

    def body(self, usage: Usage) -> bytes:
        """Return the complete answer."""
        self._output.end(item_status(self._finish))
        return self._body.ended(self._finish, self._output.items, usage)
