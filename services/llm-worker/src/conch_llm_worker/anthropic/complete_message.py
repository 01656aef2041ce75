"""The JSON body of a message that is not streamed: what `bodies.complete_body` is to the completion APIs."""

import orjson

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_llm_worker.anthropic.message_content import MessageContent
from conch_llm_worker.anthropic.message_object import MessageObject
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate


class CompleteMessage:
    """One message, as it is collected."""

    def __init__(self, request: GenerateRequest) -> None:
        self._message = MessageObject(request)
        shown = self._message.thinking_shown
        self._content = MessageContent(self._message.signature, lambda kind, fields: b"", thinking_shown=shown)
        self._finish = ChoiceFinish("stop")

    def add(self, update: ChoiceUpdate) -> None:
        """Take one update."""
        if update.finish is not None:
            self._finish = update.finish
        self._content.add(update)

    def body(self, usage: Usage) -> bytes:
        """Return the complete answer."""
        self._content.end()
        return orjson.dumps(self._message.ended(self._finish, self._content.blocks, usage))
