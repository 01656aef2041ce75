"""The message of a chat choice that is not streamed, made of what its answer consists of."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from conch_llm_worker.bodies.logprobs import Json
from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
)


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MessageParts:
    """What an answer has consisted of so far. A call that turned out to be none is content again."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)

    def add(self, events: Iterable[Event]) -> None:
        """Append one update."""
        for event in events:
            match event:
                case Content(text):
                    self.content.append(text)
                case Reasoning(text):
                    self.reasoning.append(text)
                case CallBegin(call, id_, name):
                    self.calls[call] = _Call(id_, name)
                case CallArguments(call, text):
                    self.calls[call].arguments.append(text)
                case CallBroken(call, raw):
                    del self.calls[call]
                    self.content.append(raw)
                case CallEnd():
                    pass
                case _:
                    assert_never(event)

    @property
    def thought(self) -> str | None:
        """Return the thinking; None where there was none to show."""
        return "".join(self.reasoning) or None

    def message(self, role: str) -> dict[str, Json]:
        """Return the message; its content is null where calls stand in its place, its reasoning where none is shown."""
        content, reasoning = "".join(self.content), self.thought
        message: dict[str, Json] = {
            "role": role,
            "content": content,
            "refusal": None,
            "reasoning_content": reasoning,
            "reasoning": reasoning,
        }
        if self.calls:
            message["content"] = content or None
            message["tool_calls"] = [_tool_call(call) for call in self.calls.values()]
        return message


def _tool_call(call: _Call) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": "".join(call.arguments)},
    }
