"""The response object around the output, in each of its states. Pure."""

import json
import time
from collections.abc import Callable, Sequence

import orjson

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_kit.errors import RateLimited, ServiceError
from conch_kit.json_bytes import json_bytes
from conch_llm_worker.bodies.logprobs import Json
from conch_llm_worker.generation.choice_update import ChoiceFinish


class ResponseBody:
    """Makes the JSON of one answer."""

    def __init__(self, request: GenerateRequest, clock: Callable[[], float] = time.time) -> None:
        head = {
            "id": request.response_id,
            "object": "response",
            "created_at": request.created,
            "model": request.model,
        }
        fields: dict[str, Json] = json.loads(request.response_fields)
        self._wanted = {name: fields.pop(name) for name in ("store",) if name in fields}
        self._head = json_bytes(head | fields)[:-1]
        self._prompt_tokens = sum(len(prompt.ids) for prompt in request.prompts)
        self._clock = clock

    def begun(self) -> bytes:
        """Return the answer before its first item: the usage so far, and whether it is to be stored.

        Whether it was stored the gateway adds to an answer that has ended.
        """
        so_far = Usage(prompt_tokens=self._prompt_tokens, completion_tokens=0)
        return self._body("in_progress", [], so_far, self._wanted)

    def ended(self, finish: ChoiceFinish, items: Sequence[Json], usage: Usage) -> bytes:
        """Return the complete answer, or one that a limit cut short."""
        if finish.reason == "length":
            details: dict[str, Json] = {"reason": "max_output_tokens"}
            return self._body("incomplete", items, usage, {"incomplete_details": details})
        return self._body("completed", items, usage, {"completed_at": int(self._clock())})

    def failed(self, error: ServiceError, items: Sequence[Json], usage: Usage) -> bytes:
        """Return an answer that broke."""
        code = "rate_limit_exceeded" if isinstance(error, RateLimited) else "server_error"
        return self._body("failed", items, usage, {"error": {"code": code, "message": error.message}})

    def _body(self, status: str, items: Sequence[Json], usage: Usage, ends: dict[str, Json]) -> bytes:
        nothing: dict[str, Json] = {"completed_at": None, "error": None, "incomplete_details": None}
        state: dict[str, Json] = {"status": status, **nothing, **ends, "output": list(items)}
        state["usage"] = usage_object(usage)
        return self._head + b"," + orjson.dumps(state)[1:]


def item_status(finish: ChoiceFinish) -> str:
    """Return the status of the item that was open when the answer ended."""
    return "incomplete" if finish.reason == "length" else "completed"


def usage_object(usage: Usage) -> dict[str, Json]:
    """Return the usage in this API's words."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
