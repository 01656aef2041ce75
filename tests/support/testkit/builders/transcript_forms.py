"""The text of a transcript in every form that an answer can have."""

import json
import re
from collections.abc import Sequence

from conch_contracts.messages.transcription import SpeechUsage, TranscriptFormat
from conch_speech_worker.transcript.bodies import body
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript.stream_frames import frames_for
from testkit.builders.transcriptions import VOCABULARY, transcribe_request

_USAGE = SpeechUsage(audio_s=100.0, completion_tokens=3)


def in_every_form(parts: Sequence[Sequence[Segment]]) -> dict[str, str]:
    """Return the text of each form of an answer, by the form."""
    segments = [segment for some in parts for segment in some]

    def written(form: TranscriptFormat) -> str:
        request = transcribe_request(format=form, segments=form is TranscriptFormat.VERBOSE_JSON)
        return body(request, segments, "en", _USAGE, VOCABULARY).decode()

    verbose = json.loads(written(TranscriptFormat.VERBOSE_JSON))
    texts = {
        "json": json.loads(written(TranscriptFormat.JSON))["text"],
        "text": written(TranscriptFormat.TEXT).removesuffix("\n"),
        "verbose_json": verbose["text"],
        "its segments": "".join(one["text"] for one in verbose["segments"]).strip(),
    }
    for form in (TranscriptFormat.SRT, TranscriptFormat.VTT):
        texts[form] = " ".join(line for line in written(form).split("\n") if re.match(r"w\d\d", line))
    for whose in ("openai", "vllm"):
        frames = frames_for(transcribe_request(stream=whose), VOCABULARY)
        sent = b"".join(frames.add(tuple(some), _USAGE) for some in parts) + frames.ending(_USAGE)
        events = [json.loads(one[6:]) for one in sent.split(b"\n\n") if one.startswith(b"data: {")]
        if whose == "openai":
            texts["deltas"] = "".join(event.get("delta", "") for event in events)
            texts["done"] = events[-1]["text"]
        else:
            texts["chunks"] = "".join(event["choices"][0]["delta"]["content"] for event in events)
    return texts
