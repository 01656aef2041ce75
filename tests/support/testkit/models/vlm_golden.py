"""What the reference says to chats with pictures, and these chats as clients of each API write them."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testkit.processes.conch_up import ROOT

FOLDER = ROOT / "examples" / "tiny-vlm"
GOLDEN: Mapping[str, Any] = json.loads((FOLDER / "golden.json").read_text())
ITEMS: list[dict[str, Any]] = GOLDEN["items"]
MEDIA = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


def item(name: str) -> dict[str, Any]:
    """Return what the reference says to a chat."""
    return next(each for each in ITEMS if each["name"] == name)


def pixels(picture: str) -> NDArray[np.uint8]:
    """Return a picture as the model sees it, [height, width, 3]."""
    with np.load(FOLDER / "golden.npz") as arrays:
        found: NDArray[np.uint8] = arrays[f"pixels/{picture}"]
    return found


def vectors() -> list[NDArray[np.float32]]:
    """Return the vector of each item's prompt, with length 1."""
    with np.load(FOLDER / "golden.npz") as arrays:
        return list(arrays["vectors"])


def encoded(picture: str) -> tuple[str, str]:
    """Return a picture's media type and its bytes as base64."""
    data = base64.b64encode((FOLDER / "pictures" / picture).read_bytes()).decode()
    return MEDIA[picture.rpartition(".")[2]], data


def url(picture: str) -> str:
    """Return a picture as a URL that holds it."""
    return "data:{};base64,{}".format(*encoded(picture))


def of_chat(one: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a chat as clients of chat completions write them."""
    pictures = iter(one["pictures"])

    def part(given: dict[str, Any]) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": url(next(pictures))}} if given["type"] == "image" else given

    return [
        {**each, "content": [part(given) for given in each["content"]]} if isinstance(each["content"], list) else each
        for each in one["messages"]
    ]


def of_responses(messages: list[Any]) -> list[Any]:
    """Return the same as input of Responses."""

    def part(given: dict[str, Any]) -> dict[str, Any]:
        if given["type"] == "text":
            return {"type": "input_text", "text": given["text"]}
        return {"type": "input_image", "image_url": given["image_url"]["url"]}

    return [{**each, "content": [part(given) for given in each["content"]]} for each in messages]


def of_anthropic(messages: list[Any]) -> list[Any]:
    """Return the same as turns of the Messages API."""

    def part(given: dict[str, Any]) -> dict[str, Any]:
        if given["type"] == "text":
            return given
        kind, _, data = given["image_url"]["url"].removeprefix("data:").partition(";base64,")
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}

    return [{**each, "content": [part(given) for given in each["content"]]} for each in messages]
