"""What the streams of the generating endpoints are, in an OpenAPI document's words."""

from dataclasses import dataclass
from typing import Any

from conch_contracts.anthropic.events import MessageStreamEvent
from conch_contracts.openai.audio import TranscriptEvent
from conch_contracts.openai.chat import ChatCompletionChunk
from conch_contracts.openai.completions import Completion
from conch_contracts.openai.responses.events import ResponseStreamEvent
from generate.openapi.failures import Responses

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stream:
    """What an answer is with `stream`."""

    name: str
    """Of the type of each event."""
    events: Any
    ending: str
    others: tuple[Document, ...] = ()
    """The schemas of what `data` may be beside such an event."""

    def responses(self) -> Responses:
        """Return the answer as a path's description has it beside the whole one."""
        said = f"With `stream`: server-sent events whose data is a `{self.name}` each. {self.ending}"
        data = {"anyOf": [_json_text(self.name), *self.others]} if self.others else _json_text(self.name)
        fields = {"event": {"type": "string"}, "data": data}
        item = {"type": "object", "description": said, "properties": fields, "required": ["data"]}
        return {200: {"content": {"text/event-stream": {"itemSchema": item}}}}


def _json_text(name: str) -> Document:
    reference = {"$ref": f"#/components/schemas/{name}"}
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": reference}


_DONE = "The last one is `[DONE]`; an answer that breaks ends with an `ErrorResponse` instead."
_LAST = ({"const": "[DONE]"}, _json_text("ErrorResponse"))
STREAMS = (
    Stream("ChatCompletionChunk", ChatCompletionChunk, _DONE, _LAST),
    Stream("Completion", Completion, _DONE, _LAST),
    Stream("ResponseStreamEvent", ResponseStreamEvent, "The last one holds the whole response, or an error."),
    Stream("TranscriptEvent", TranscriptEvent, f"Of models with the profile `vllm` they are vLLM's. {_DONE}", _LAST),
    Stream("MessageStreamEvent", MessageStreamEvent, "The last one is `message_stop`, or `error` where it broke."),
)
CHUNKS, TEXTS, EVENTS, TRANSCRIPTS, MESSAGE_EVENTS = STREAMS
CHUNKS_OR_TEXTS = Stream(
    "ChatCompletionChunk",
    ChatCompletionChunk,
    f"Of a text completion each is a `Completion`. {_DONE}",
    (_json_text("Completion"), *_LAST),
)
"""What a path streams that serves chats and text completions."""
