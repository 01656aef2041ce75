"""The frames of a streamed message: what `frames` is to the completion APIs."""

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_kit.anthropic_errors import event_of
from conch_kit.errors import ServiceError
from conch_llm_worker.anthropic.message_content import MessageContent, event
from conch_llm_worker.anthropic.message_object import MessageObject, usage_object
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate


class MessageFrames:
    """Typed events: the message begins, its blocks come one after the other, the message ends."""

    def __init__(self, request: GenerateRequest) -> None:
        self._message = MessageObject(request)
        self._content = MessageContent(self._message.signature, thinking_shown=self._message.thinking_shown)
        self._request_id = request.request_id
        self._finish = ChoiceFinish("stop")

    def opening(self, index: int) -> bytes:
        """Return the event that every stream begins with."""
        return event("message_start", {"message": self._message.begun()})

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return the events of one update."""
        if update.finish is not None:
            self._finish = update.finish
        return self._content.add(update)

    def ending(self, usage: Usage) -> bytes:
        """Return the end of the stream."""
        delta = event("message_delta", {"delta": self._message.stop(self._finish), "usage": usage_object(usage)})
        return self._content.end() + delta + event("message_stop", {})

    def failure(self, error: ServiceError, usage: Usage) -> bytes:
        """Return the end of a stream that broke."""
        return event_of(error, self._request_id)
