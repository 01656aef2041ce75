"""The endpoints of speech, which take forms."""

from typing import Any

from fastapi import FastAPI

from conch_contracts.openai.audio import (
    SpeechFields,
    Transcription,
    TranscriptionRequest,
    TranslationRequest,
    VerboseTranscription,
)
from generate.openapi.failures import errors
from generate.openapi.streams import TRANSCRIPTS, Document

FORM = "multipart/form-data"
FORMS: tuple[type[SpeechFields], ...] = (TranscriptionRequest, TranslationRequest)
"""What these endpoints take, beside a file."""
_FILE: Document = {
    "type": "string",
    "contentMediaType": "application/octet-stream",
    "description": "The audio; its bytes say in which format it is. Its part has a `filename`.",
}
_TEXTS: Document = {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "text/vtt")}


def describe_speech(app: FastAPI) -> None:
    """Add the paths to the document."""

    async def transcriptions() -> None:
        """Write down what is said in a file, in its own language."""

    async def translations() -> None:
        """Write down in English what is said in a file."""

    for handler, kind in ((transcriptions, TranscriptionRequest), (translations, TranslationRequest)):
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
        content = {**_TEXTS, **TRANSCRIPTS.responses()[200]["content"]}
        app.post(
            f"/v1/audio/{handler.__name__}",
            response_model=Transcription | VerboseTranscription,
            responses={200: {"content": content}, **errors()},
            openapi_extra={"requestBody": {"required": True, "content": {FORM: {"schema": schema}}}},
            tags=["speech"],
        )(handler)


def form_schema(kind: type[SpeechFields]) -> dict[str, Any]:
    """Return the schema of a form, its file included."""
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["properties"] = {"file": _FILE, **schema["properties"]}
    schema["required"] = ["file"]
    return schema
