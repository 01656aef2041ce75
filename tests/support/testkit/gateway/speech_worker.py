"""Plays a speech-worker behind a real gateway: what it hears is the digest of the file that came."""

import hashlib
import json

from conch_contracts.messages.message import to_json
from conch_contracts.messages.transcription import LENGTH_BYTES, SpeechUsage, TranscribeRequest, TranscriptFormat
from testkit.gateway.speech import asked
from testkit.servers.scripted_http import Call

USAGE = to_json(SpeechUsage(audio_s=2.5, prompt_tokens=4, completion_tokens=7, audio_tokens=125)).decode()
_TOKENS = {"type": "tokens", "input_tokens": 129, "output_tokens": 7, "total_tokens": 136}
_SECONDS = {"type": "duration", "seconds": 3}
_LOGPROBS = [{"token": " hi", "bytes": [32, 104, 105], "logprob": -0.5}]


def heard(file: bytes) -> str:
    """Return the text of a file."""
    return f"{len(file)} {hashlib.sha256(file).hexdigest()[:8]}"


async def transcribe(call: Call) -> None:
    """Answer one request as a speech-worker does."""
    request = asked(call.body)
    size = int.from_bytes(call.body[:LENGTH_BYTES], "big")
    file = call.body[LENGTH_BYTES + size :]
    assert len(file) == request.file_bytes
    if request.stream is not None:
        await _stream(call, request, heard(file))
        return
    body = _body(request, heard(file))
    await call.answer(body.encode(), headers={"content-type": request.format.media_type, "x-conch-usage": USAGE})


def _body(request: TranscribeRequest, text: str) -> str:
    match request.format:
        case TranscriptFormat.JSON:
            logprobs = {"logprobs": _LOGPROBS} if request.logprobs else {}
            return json.dumps({"text": text, "usage": _SECONDS, **logprobs})
        case TranscriptFormat.TEXT:
            return text + "\n"
        case TranscriptFormat.SRT:
            return f"1\n00:00:00,000 --> 00:00:02,500\n{text}\n\n"
        case TranscriptFormat.VTT:
            return f"WEBVTT\n\n00:00.000 --> 00:02.500\n{text}\n\n"
        case TranscriptFormat.VERBOSE_JSON:
            return json.dumps(_verbose(request, text))


def _verbose(request: TranscribeRequest, text: str) -> dict[str, object]:
    answer: dict[str, object] = {
        "task": request.task,
        "language": "english",
        "duration": 2.5,
        "text": text,
        "usage": _SECONDS,
    }
    if request.segments:
        times = {"id": 0, "seek": 0, "start": 0.0, "end": 2.5, "text": f" {text}", "tokens": [1, 2]}
        quality = {"temperature": 0.0, "avg_logprob": -0.1, "compression_ratio": 1.0, "no_speech_prob": 0.01}
        answer["segments"] = [{**times, **quality}]
    if request.words:
        answer["words"] = [{"word": text, "start": 0.0, "end": 2.5}]
    return answer


async def _stream(call: Call, request: TranscribeRequest, text: str) -> None:
    first, _, rest = text.partition(" ")
    events = [
        {"type": "transcript.text.delta", "delta": first},
        {"type": "transcript.text.delta", "delta": f" {rest}"},
        {"type": "transcript.text.done", "text": text, "usage": _TOKENS},
    ]
    await call.begin()
    for event in events:
        await call.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await call.chunk(b"data: [DONE]\n\n")
    await call.chunk(f": usage {USAGE}\n\n".encode())
    await call.chunk(b"")
