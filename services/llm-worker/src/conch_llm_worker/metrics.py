"""The worker's own metrics; names, labels and buckets are written here only."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from conch_contracts.messages.generation import Usage
from conch_kit.metric_families import CounterFamily, CounterValue, GaugeFamily, GaugeValue
from conch_kit.metrics import outcomes


@dataclass(frozen=True, slots=True)
class LlmWorkerMetrics:
    """The collectors of one worker process."""

    requests: CounterFamily
    prompt_tokens: CounterValue
    completion_tokens: CounterValue
    vocabularies: GaugeValue

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "LlmWorkerMetrics":
        """Make the collectors in a registry."""
        made = "Tokens that engines made, for broken answers too."
        return cls(
            requests=outcomes("conch_llm_worker_requests", registry),
            prompt_tokens=_count("conch_llm_worker_prompt_tokens", "Prompt tokens of finished requests.", registry),
            completion_tokens=_count("conch_llm_worker_completion_tokens", made, registry),
            vocabularies=GaugeFamily(
                "conch_llm_worker_vocabularies", "Tokenizer vocabularies held in memory.", (), registry
            ).labels(),
        )

    def finished(self, outcome: str, usage: Usage) -> None:
        """Record the end of a request."""
        self.requests.labels(outcome).inc()
        self.prompt_tokens.inc(usage.prompt_tokens)
        self.completion_tokens.inc(usage.completion_tokens)


def _count(name: str, said: str, registry: CollectorRegistry) -> CounterValue:
    return CounterFamily(name, said, (), registry).labels()
