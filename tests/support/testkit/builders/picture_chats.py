"""Chats with pictures, as a gateway sends them to a tokenizer."""

from typing import Any

from testkit.models.pictures import base64_of


def picture_chat(*turns: str | tuple[str | bytes, ...], role: str = "user", **fields: Any) -> dict[str, Any]:
    """Return a `ChatInput` of these turns, each a text or its parts in their order: texts, and files as bytes."""
    messages, lengths, pictures = list[dict[str, Any]](), dict[int, list[int | None]](), list[dict[str, str]]()
    for index, turn in enumerate(turns):
        parts = (turn,) if isinstance(turn, str) else turn
        messages.append({"role": role, "content": "\n".join(part for part in parts if isinstance(part, str))})
        if isinstance(turn, tuple):
            lengths[index] = [len(part) if isinstance(part, str) else None for part in parts]
        pictures += [
            {"data": base64_of(part), "param": f"messages.{index}.content.{at}.image_url"}
            for at, part in enumerate(parts)
            if isinstance(part, bytes)
        ]
    return {
        "messages": messages,
        "part_lengths": lengths,
        "pictures": pictures,
        "content_format": "auto",
        **fields,
    }
