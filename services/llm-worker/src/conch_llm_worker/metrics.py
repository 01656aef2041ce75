"""The worker's own metrics; names, labels and buckets are written here only."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from conch_contracts.messages.generation import Usage
from conch_kit.metrics import outcomes


@dataclass(frozen=True, slots=True)
class LlmWorkerMetrics:
    """The collectors of one worker process."""

    requests: Counter
    prompt_tokens: Counter
    completion_tokens: Counter
    vocabularies: Gauge

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "LlmWorkerMetrics":
        """Make the collectors in a registry."""
        return cls(
            requests=outcomes("conch_llm_worker_requests", registry),
            prompt_tokens=Counter(
                "conch_llm_worker_prompt_tokens", "Prompt tokens of finished requests.", registry=registry
            ),
            completion_tokens=Counter(
                "conch_llm_worker_completion_tokens",
                "Tokens that engines made, for broken answers too.",
                registry=registry,
            ),
            vocabularies=Gauge(
                "conch_llm_worker_vocabularies", "Tokenizer vocabularies held in memory.", registry=registry
            ),
        )

    def finished(self, outcome: str, usage: Usage) -> None:
        """Record the end of a request."""
        self.requests.labels(outcome).inc()
        self.prompt_tokens.inc(usage.prompt_tokens)
        self.completion_tokens.inc(usage.completion_tokens)
