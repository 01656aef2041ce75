"""Frames of streams of the two completion APIs that show text, tool calls and log probabilities, and nothing else.

All that is the same in every frame of a choice is made once; per token only the text is escaped. A chat choice is a
role frame, text frames, and an empty frame with the finish reason; a completion choice carries the finish reason in
its last text frame. Usage appears as OpenAI has it: only when asked for, then as null in every other frame.
"""

from collections.abc import Sequence

import orjson

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_llm_worker.bodies.logprobs import chat_logprobs, completion_logprobs
from conch_llm_worker.bodies.shared_fields import usage_fields
from conch_llm_worker.frames.chat_delta import delta_of
from conch_llm_worker.frames.stream_endings import ChunkEnds
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary


class ChatFrames(ChunkEnds):
    """Frames of `chat.completion.chunk`."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary) -> None:
        super().__init__(include_usage=request.include_usage)
        self._head = _head(request, "chat.completion.chunk")
        self._vocabulary = vocabulary
        self._logprobs = request.logprobs
        self._taken_apart = request.parsing is not None
        self._tail = _tail(request)
        self._role = b'"delta":{"role":' + orjson.dumps(request.role) + b',"content":""},"logprobs":null'
        count = len(request.prompts) * request.n
        self._choices = [self._head + b'[{"index":%d,' % index for index in range(count)]
        self._texts = [choice + b'"delta":{"content":' for choice in self._choices]
        self._text_end = b'},"logprobs":null,"finish_reason":null}]' + self._tail

    def opening(self, index: int) -> bytes:
        """Return the role frame."""
        return self._choices[index] + self._role + b',"finish_reason":null}]' + self._tail

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return the text frame and the finishing frame, as far as there are any."""
        if update.events or (self._taken_apart and update.entries):
            return self._apart(index, update)
        frame = b""
        if self._logprobs and (update.text or update.entries):
            shown = orjson.dumps(chat_logprobs(update.entries, self._vocabulary))
            frame = self._texts[index] + orjson.dumps(update.text) + b'},"logprobs":' + shown
            frame += b',"finish_reason":null}]' + self._tail
        elif update.text:
            frame = self._texts[index] + orjson.dumps(update.text) + self._text_end
        if update.finish is not None:
            frame += self._texts[index] + b'""},"logprobs":null,' + _finish(update.finish) + b"}]" + self._tail
        return frame

    def _apart(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return a frame for each thing that the update holds; log probabilities come with the first, or alone."""
        deltas = [delta for delta in map(delta_of, update.events) if delta is not None]
        if update.text:
            deltas.append(b'{"content":' + orjson.dumps(update.text) + b"}")
        if update.entries and not deltas:
            deltas.append(b"{}")
        begin, end = self._choices[index] + b'"delta":', b',"finish_reason":null}]' + self._tail
        frames, entries = list[bytes](), update.entries
        for delta in deltas:
            frames += (begin, delta, b',"logprobs":', self._shown(entries), end)
            entries = ()
        if update.finish is not None:
            frames.append(self.update(index, ChoiceUpdate("", (), update.finish)))
        return b"".join(frames)

    def _shown(self, entries: Sequence[TokenEntry]) -> bytes:
        if not self._logprobs or not entries:
            return b"null"
        return orjson.dumps(chat_logprobs(entries, self._vocabulary))

    def usage(self, usage: Usage) -> bytes:
        """Return the frame without choices."""
        return _usage_frame(self._head, usage)


class CompletionFrames(ChunkEnds):
    """Frames of `text_completion`."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary) -> None:
        super().__init__(include_usage=request.include_usage)
        self._head = _head(request, "text_completion")
        self._vocabulary = vocabulary
        self._logprobs = request.logprobs
        self._tail = _tail(request)
        count = len(request.prompts) * request.n
        self._texts = [self._head + b'[{"index":%d,"text":' % index for index in range(count)]
        self._text_end = b',"logprobs":null,"finish_reason":null}]' + self._tail

    def opening(self, index: int) -> bytes:
        """Return nothing: a completion has no role."""
        return b""

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return one frame, or none."""
        if update.finish is None and not update.entries:
            return self._texts[index] + orjson.dumps(update.text) + self._text_end if update.text else b""
        shown = b"null"
        if self._logprobs and update.entries:
            shown = orjson.dumps(completion_logprobs(update.entries, self._vocabulary))
        finish = b'"finish_reason":null' if update.finish is None else _finish(update.finish)
        frame = self._texts[index] + orjson.dumps(update.text) + b',"logprobs":' + shown
        return frame + b"," + finish + b"}]" + self._tail

    def usage(self, usage: Usage) -> bytes:
        """Return the frame without choices."""
        return _usage_frame(self._head, usage)


def _head(request: GenerateRequest, kind: str) -> bytes:
    fields = {"id": request.response_id, "object": kind, "created": request.created, "model": request.model}
    if request.fingerprint is not None:
        fields["system_fingerprint"] = request.fingerprint
    return b"data: " + orjson.dumps(fields)[:-1] + b',"choices":'


def _tail(request: GenerateRequest) -> bytes:
    return b',"usage":null}\n\n' if request.include_usage else b"}\n\n"


def _finish(finish: ChoiceFinish) -> bytes:
    return orjson.dumps({"finish_reason": finish.reason, "stop_reason": finish.stop_reason})[1:-1]


def _usage_frame(head: bytes, usage: Usage) -> bytes:
    return head + b'[],"usage":' + orjson.dumps(usage_fields(usage)) + b"}\n\n"
