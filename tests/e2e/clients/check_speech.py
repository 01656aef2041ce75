"""Clients of other makers that write down speech, unchanged; `tests/e2e/test_clients.py` runs this.

OPENAI_BASE_URL names the Conch, as for the SDK, and OPENAI_API_KEY a key of it.
"""

import json
import os
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import litellm
import pydub
import pytest
from langchain_community.document_loaders.parsers.audio import OpenAIWhisperParser
from langchain_core.documents.base import Blob

BASE_URL = os.environ["OPENAI_BASE_URL"]  # noqa: TID251
KEY = os.environ.get("OPENAI_API_KEY", "x")  # noqa: TID251
FOLDER = Path(__file__).parents[3] / "examples" / "tiny-whisper"
ITEM: dict[str, Any] = json.loads((FOLDER / "golden.json").read_text())["items"][0]
SPOKEN, TEXT = FOLDER / ITEM["file"], ITEM["transcribe"]["text"]


@pytest.mark.parametrize("form", [None, "json", "text", "verbose_json", "srt", "vtt"])
def test_litellm_transcribes(form: str | None) -> None:
    with SPOKEN.open("rb") as file:
        answer = litellm.transcription(
            model="openai/tiny-whisper", file=file, api_base=BASE_URL, api_key=KEY, response_format=form
        )
    assert TEXT in answer.text


@pytest.mark.parametrize("form", [None, "text", "verbose_json", "vtt"])
def test_langchain_writes_down_speech(monkeypatch: pytest.MonkeyPatch, form: str | None) -> None:
    monkeypatch.setattr(pydub.AudioSegment, "converter", imageio_ffmpeg.get_ffmpeg_exe())
    parser = OpenAIWhisperParser(
        api_key=KEY, base_url=BASE_URL, model="tiny-whisper", language="en", response_format=form, temperature=0
    )
    (document,) = parser.parse(Blob.from_path(SPOKEN))
    assert TEXT in document.page_content
    assert document.metadata["chunk"] == 0
