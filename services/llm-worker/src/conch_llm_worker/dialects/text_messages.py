"""Reads the messages of engines that answer with text: what is new in each, never with half a character.

Some engines send what is new, others the whole answer every time; some cut a character's bytes in two, others show what
they do not know yet as U+FFFD and correct it in the next message.
"""

import codecs
from typing import Protocol

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import vllm as wire
from conch_contracts.messages.generation import Api
from conch_contracts.records import TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, is_final
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta

_REPLACEMENT = "\ufffd"
_ENDS = {
    b"None": None,
    b"stop": EngineEnd.STOP,
    b"length": EngineEnd.LENGTH,
    b"abort": EngineEnd.CANCELLED,
    b"cancelled": EngineEnd.CANCELLED,
    b"timeout": EngineEnd.CANCELLED,
}


class Texts(Protocol):
    """One answer's text in the making."""

    def feed(self, raw: bytes) -> str:
        """Take a message's text and return what is new and certain."""
        ...

    def finish(self) -> str:
        """Return what was held back, when no more text comes."""
        ...


def texts_of(output: TextOutput, prompt: str = "") -> Texts:
    """Return a reader of texts; `prompt` is left out of cumulative ones that begin with it."""
    return CumulativeTexts(prompt) if output is TextOutput.CUMULATIVE else DeltaTexts()


class DeltaTexts:
    """Each message holds what is new."""

    __slots__ = ("_decode",)

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, raw: bytes) -> str:
        """Take a message's text; the beginning of a character waits for its end."""
        return self._decode(raw)

    def finish(self) -> str:
        """Return U+FFFD for a character that never ended."""
        return self._decode(b"", True)  # noqa: FBT003 - the codec's own positional signature


class CumulativeTexts:
    """Each message holds the whole answer so far."""

    __slots__ = ("_held", "_known", "_prompt")

    def __init__(self, prompt: str = "") -> None:
        self._prompt = prompt
        self._known = ""
        self._held = ""

    def feed(self, raw: bytes) -> str:
        """Take the answer so far; raises MalformedResponse when it takes back what was said before."""
        if not raw:
            return ""
        text = raw.decode("utf-8", "replace").removeprefix(self._prompt)
        if not text.startswith(self._known):
            raise MalformedResponse("The engine's text is not the continuation of what it sent before.")
        certain = text.rstrip(_REPLACEMENT)
        new = certain[len(self._known) :]
        self._known, self._held = certain, text[len(certain) :]
        return new

    def finish(self) -> str:
        """Return the U+FFFD that nothing has corrected."""
        return self._held


class TextReader:
    """Reads text, the number of its tokens, and the finish reason, where the engine says them.

    The only message of a call that is not streamed is its last one, and nothing in it says so.
    """

    __slots__ = ("_name", "_streamed", "_texts")

    def __init__(self, texts: Texts, name: str = wire.TEXT_OUTPUT, *, streamed: bool = True) -> None:
        self._texts = texts
        self._name = name
        self._streamed = streamed

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return the text that a message brought."""
        out = Outputs(response)
        raw = single_text(out, self._name)
        end = read_end(out, final=not self._streamed or is_final(response))
        if raw is None and (end is None or not self._streamed):
            raise MalformedResponse(f"An answer without {self._name}.")
        text = self._texts.feed(raw) if raw is not None else ""
        if end is not None:
            text += self._texts.finish()
        made = sum(out.ints(wire.NUM_OUTPUT_TOKENS)) if out.has(wire.NUM_OUTPUT_TOKENS) else None
        return TokenDelta((), end=end, text=text, made=made)


def read_end(out: Outputs, *, final: bool) -> EngineEnd | None:
    """Return why the engine made no more; the last message ends an answer even without a reason."""
    raw = single_text(out, wire.FINISH_REASON) or b"None"
    if raw not in _ENDS:
        raise MalformedResponse(f"finish_reason is {raw!r}, expected one of {sorted(_ENDS)}.")
    return _ENDS[raw] or (EngineEnd.UNKNOWN if final else None)


def single_text(out: Outputs, name: str) -> bytes | None:
    """Return the only element of a text output, or None where the message has no such output."""
    if not out.has(name):
        return None
    found = out.texts(name)
    if len(found) != 1:
        raise MalformedResponse(f"Output {name} has {len(found)} elements, expected one: one answer was asked for.")
    return found[0]


def refuse_ids(api: Api) -> InvalidRequest:
    """Return the refusal of a prompt of which only the ids are exact."""
    return InvalidRequest(
        "This model's backend takes text, not token ids: a prompt of ids, one that was cut, or one whose "
        "special tokens were chosen cannot be sent to it.",
        param=api.prompt_param,
        code="unsupported_parameter",
    )
