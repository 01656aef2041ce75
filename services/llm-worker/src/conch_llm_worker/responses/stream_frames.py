"""The frames of a streamed response: what `frames` is to the other two APIs."""

from conch_contracts.headers import RESPONSE_COMMENT
from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_kit.errors import ServiceError
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.responses.event_writer import EventWriter
from conch_llm_worker.responses.item_sequence import Output
from conch_llm_worker.responses.response_object import ResponseBody, item_status
from conch_llm_worker.text.vocabulary import Vocabulary


class ResponseFrames:
    """Typed events: the response begins, its items grow, the response ends.

    The last event carries the answer as its last member, and its text once before in the comment that the gateway
    keeps: the gateway adds to both whether the answer was stored.
    """

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary) -> None:
        self._events = EventWriter()
        self._body = ResponseBody(request)
        self._output = Output(request, vocabulary, self._events)
        self._finish = ChoiceFinish("stop")

    def opening(self, index: int) -> bytes:
        """Return the two events that every stream begins with."""
        begun = b'"response":' + self._body.begun()
        return self._events.raw(b"response.created", begun) + self._events.raw(b"response.in_progress", begun)

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return the events of one update."""
        if update.finish is not None:
            self._finish = update.finish
        return self._output.add(update)

    def ending(self, usage: Usage) -> bytes:
        """Return the end of the stream."""
        closing = self._output.end(item_status(self._finish))
        body = self._body.ended(self._finish, self._output.items, usage)
        kind = b"response.incomplete" if self._finish.reason == "length" else b"response.completed"
        return closing + self._last(kind, body)

    def failure(self, error: ServiceError, usage: Usage) -> bytes:
        """Return the end of a stream that broke."""
        return self._last(b"response.failed", self._body.failed(error, self._output.broken(), usage))

    def _last(self, kind: bytes, body: bytes) -> bytes:
        kept = RESPONSE_COMMENT.encode() + body + b"\n\n"
        return kept + self._events.raw(kind, b'"response":' + body)
