"""The prompts of every load: the plain conversations that ship with the example model, as messages and as ids."""

import json
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODEL_FOLDER = ROOT / "examples" / "tiny-chat"
MODEL_NAME = "tiny-chat"


@dataclass(frozen=True, slots=True)
class Conversation:
    """One prompt in the two forms that the two paths take."""

    messages: list[dict[str, str]]
    prompt_ids: list[int]


def load() -> tuple[Conversation, ...]:
    """Read the conversations whose answers are plain ASCII, so that the first token is visible text at once."""
    items = json.loads((MODEL_FOLDER / "golden.json").read_text())["items"]
    return tuple(
        Conversation(item["messages"], item["prompt_ids"])
        for item in items
        if item.get("messages")
        and not item.get("tools")
        and not item.get("template_kwargs")
        and item["text"].isascii()
        and not item["text"].startswith("<")
    )
