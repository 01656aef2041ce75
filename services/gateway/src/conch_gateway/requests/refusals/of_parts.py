"""Parts of content that no model here can take, whichever API they belong to: a 400 that says what would do; pure."""

from collections.abc import Mapping

PICTURES = frozenset({"image_url", "input_image", "image"})
"""What the APIs call a picture: chat, Responses and Messages, in this order."""

_SOUND = "what is said in a file is written down by POST /v1/audio/transcriptions; send its text here"
_VIDEO = "send single frames, as pictures"
_FILE = "files are neither read nor kept here: send what is in it as text or as pictures"
_EMBEDS = "send the picture itself"

OF_PARTS: Mapping[str, str] = {
    "audio": _SOUND,
    "audio_embeds": _SOUND,
    "audio_url": _SOUND,
    "container_upload": _FILE,
    "document": _FILE,
    "file": _FILE,
    "image_embeds": _EMBEDS,
    "image_pil": _EMBEDS,
    "input_audio": _SOUND,
    "input_file": _FILE,
    "input_video": _VIDEO,
    "video": _VIDEO,
    "video_embeds": _VIDEO,
    "video_url": _VIDEO,
}
"""By type: OpenAI's, Anthropic's and vLLM's."""

OF_SOURCES: Mapping[str, str] = {"file": "no files are kept here: send it with a source of the type 'base64'"}
"""Of a picture of Anthropic's, by the type of its source."""

NO_FILE_ID = "no files are kept here: send the picture itself in 'image_url'"
NO_KEPT_PICTURE = "no picture is kept under its 'uuid': send the picture itself"


def instead_of(kind: str, picture: str) -> str | None:
    """Return what to do instead of a part of this type; None where nobody knows the type.

    `picture` is the type of a picture in the API at hand.
    """
    if kind in PICTURES and kind != picture:
        return f"a picture is a part of the type '{picture}' here"
    return OF_PARTS.get(kind)
