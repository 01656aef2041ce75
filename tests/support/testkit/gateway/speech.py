"""A gateway in this process with one model of speech, on fakes; and what it sends to workers."""

from collections.abc import Sequence
from typing import Any

from conch_contracts.messages.message import from_json
from conch_contracts.messages.transcription import LENGTH_BYTES, TranscribeRequest
from conch_contracts.names import PREPARE_PATH, TRANSCRIBE_PATH, WorkerUrl
from conch_contracts.records import Dialect, Engine, ModelKind, Route, SpeechProfile
from testkit.gateway.fakes import ENGINE, WORKER, Gateway, Script, gateway, prepared, route, snapshot

WHISPER = SpeechProfile(languages=("en", "de", "fr"), translates=True, word_times=True)
TRANSCRIPTIONS = "/v1/audio/transcriptions"
TRANSLATIONS = "/v1/audio/translations"
USAGE = b'{"audio_s":2.5,"prompt_tokens":4,"completion_tokens":7,"audio_tokens":125}'


def speech_route(speech: SpeechProfile = WHISPER, **changes: Any) -> Route:
    """Return a route of a model of speech called ear, and whisper-1."""
    fields: dict[str, Any] = {
        "model_id": "local/ear",
        "served_names": ("ear", "whisper-1"),
        "kind": ModelKind.TRANSCRIPTION,
        "dialect": Dialect.SPEECH,
        "engine_model": "ear",
        "speech": speech,
    }
    return route(**{**fields, **changes})


def serving(
    worker: Script,
    *,
    tokenizer: Script | None = None,
    engines: Sequence[Engine] = (Engine(grpc=ENGINE),),
    known: Sequence[Route] = (),
    workers: Sequence[WorkerUrl] = (WORKER,),
    **settings: Any,
) -> Gateway:
    """Return the gateway; its tokenizer makes one prompt of two ids unless it plays another script."""
    scripts = {PREPARE_PATH: tokenizer or prepared(2), TRANSCRIBE_PATH: worker}
    return gateway(scripts, known=snapshot(*(known or (speech_route(),)), engines=engines, workers=workers), **settings)


def asked(body: bytes) -> TranscribeRequest:
    """Return the message that stands before the file."""
    size = int.from_bytes(body[:LENGTH_BYTES], "big")
    assert len(body) >= LENGTH_BYTES + size
    return from_json(TranscribeRequest, body[LENGTH_BYTES : LENGTH_BYTES + size])
