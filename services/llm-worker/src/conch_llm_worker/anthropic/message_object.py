"""The message around its content: how it begins, how it ends, and what it used. Pure."""

from collections.abc import Sequence

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_llm_worker.anthropic.message_content import Block
from conch_llm_worker.bodies.logprobs import Json
from conch_llm_worker.generation.choice_update import ChoiceFinish

_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


class MessageObject:
    """Makes the JSON of one answer."""

    def __init__(self, request: GenerateRequest) -> None:
        self._id = request.response_id
        self._model = request.model
        self._prompt_tokens = sum(len(prompt.ids) for prompt in request.prompts)
        self._cut_to_context = request.cut_to_context
        thinking = request.parsing.thinking if request.parsing else None
        self.thinking_shown = thinking is None or thinking.show
        """Whether blocks of thinking have its text."""

    @property
    def signature(self) -> str:
        """What stands where Anthropic signs a model's thinking: which answer it belongs to."""
        return self._id

    def begun(self) -> Block:
        """Return the message before its first block."""
        so_far = Usage(prompt_tokens=self._prompt_tokens, completion_tokens=0)
        return self._message([], {"stop_reason": None, "stop_sequence": None}, so_far)

    def ended(self, finish: ChoiceFinish, blocks: Sequence[Block], usage: Usage) -> Block:
        """Return the complete message."""
        return self._message(blocks, self.stop(finish), usage)

    def stop(self, finish: ChoiceFinish) -> dict[str, Json]:
        """Return why the answer ended."""
        stop = finish.stop_reason if finish.reason == "stop" and isinstance(finish.stop_reason, str) else None
        reason = _STOP_REASONS.get(finish.reason, "end_turn" if stop is None else "stop_sequence")
        if finish.reason == "length" and self._cut_to_context:
            reason = "model_context_window_exceeded"
        return {"stop_reason": reason, "stop_sequence": stop}

    def _message(self, blocks: Sequence[Block], stop: dict[str, Json], usage: Usage) -> Block:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list(blocks),
            **stop,
            "usage": usage_object(usage),
        }


def usage_object(usage: Usage) -> dict[str, Json]:
    """Return the usage in this API's words; no engine tells what it had cached."""
    found: dict[str, Json] = {
        "input_tokens": usage.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": usage.completion_tokens,
    }
    if usage.reasoning_tokens is not None:
        found["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return found
