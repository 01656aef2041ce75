"""The `delta` of a chat frame for each thing that an answer consists of.

Thinking has two names, since clients are divided: `reasoning_content` is DeepSeek's, `reasoning` is vLLM's newer one.
"""

from typing import assert_never

import orjson

from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
)


def delta_of(event: Event) -> bytes | None:
    """Return what a frame says of an event; None for what a stream cannot say: that a call is over, or was none."""
    match event:
        case Content(text):
            return b'{"content":' + orjson.dumps(text) + b"}"
        case Reasoning(text):
            said = orjson.dumps(text)
            return b'{"reasoning_content":' + said + b',"reasoning":' + said + b"}"
        case CallArguments(call, text):
            return b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}' % (call, orjson.dumps(text))
        case CallBegin(call, id_, name):
            return b'{"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}]}' % (
                call,
                orjson.dumps(id_),
                orjson.dumps(name),
            )
        case CallEnd() | CallBroken():
            return None
        case _:
            assert_never(event)
