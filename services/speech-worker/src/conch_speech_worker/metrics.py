"""The worker's own metrics; names, labels and buckets are written here only."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from conch_contracts.messages.transcription import SpeechUsage
from conch_kit.metric_families import CounterFamily
from conch_kit.metrics import outcomes


@dataclass(frozen=True, slots=True)
class SpeechWorkerMetrics:
    """The collectors of one worker process."""

    requests: CounterFamily
    audio: Counter
    windows: Counter
    tokens: Counter
    vocabularies: Gauge

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "SpeechWorkerMetrics":
        """Make the collectors in a registry."""
        return cls(
            requests=outcomes("conch_speech_worker_requests", registry),
            audio=Counter("conch_speech_worker_audio_seconds", "Seconds of sound in files.", registry=registry),
            windows=Counter("conch_speech_worker_windows", "Windows that engines heard.", registry=registry),
            tokens=Counter("conch_speech_worker_completion_tokens", "Tokens that engines made.", registry=registry),
            vocabularies=Gauge("conch_speech_worker_vocabularies", "Tokenizers in memory.", registry=registry),
        )

    def finished(self, outcome: str, usage: SpeechUsage) -> None:
        """Record the end of one request, and what it used."""
        self.requests.labels(outcome).inc()
        self.audio.inc(usage.audio_s)
        self.tokens.inc(usage.completion_tokens)
