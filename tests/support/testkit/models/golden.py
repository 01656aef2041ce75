"""The reference outputs of tiny-chat, as typed items."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[4] / "examples" / "tiny-chat"


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt with the greedy answer that the reference implementation gave."""

    name: str
    prompt_ids: list[int]
    output_ids: list[int]
    text: str
    finish_reason: str
    logprobs: list[float]
    messages: list[dict[str, Any]] | None
    prompt: str | None
    tools: list[dict[str, Any]] | None
    plain: bool
    """Whether the chat needs neither tools nor template arguments."""


@dataclass(frozen=True, slots=True)
class Golden:
    """All items, and how far a log probability may be off."""

    items: tuple[Item, ...]
    tolerance_logprob: float

    def chats(self) -> list[Item]:
        """Return the items that are plain conversations."""
        return [item for item in self.items if item.messages is not None and item.plain]

    def named(self, name: str) -> Item:
        """Return one item by its name."""
        return next(item for item in self.items if item.name == name)


def load_golden() -> Golden:
    """Read golden.json of the example model."""
    raw = json.loads((FOLDER / "golden.json").read_text())
    items = tuple(
        Item(
            name=item["name"],
            prompt_ids=item["prompt_ids"],
            output_ids=item["output_ids"],
            text=item["text"],
            finish_reason=item["finish_reason"],
            logprobs=item["logprobs"],
            messages=_as_the_api_has_them(item.get("messages")),
            prompt=item.get("prompt"),
            tools=item.get("tools"),
            plain=not item.get("tools") and not item.get("template_kwargs"),
        )
        for item in raw["items"]
    )
    return Golden(items, raw["tolerance_logprob"])


def _as_the_api_has_them(messages: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return messages whose calls carry their arguments as text; the file has them as templates want them."""
    for message in messages or ():
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return messages
