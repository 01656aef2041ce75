"""How the tests of all dialects ask the worker: the models, and requests whose prompt says what is answered."""

import itertools
import json
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt
from conch_contracts.records import Dialect
from testkit.builders.generate_requests import backend, generate_request, sampling, target
from testkit.engines.dialect_stand_ins import OTHER_FORMS, PER_DIALECT, StandIn
from testkit.models.vocabularies import BYTE_EOS
from testkit.processes.llm_worker import Reply

from .conftest import Stage

NUMBERS = itertools.count()
FORMS = (*PER_DIALECT, *OTHER_FORMS)
STREAMED = tuple(one for one in FORMS if one.name not in {"trt-unary", "trt-unary-old", "trt-bls-unary", "trt-llm-api"})
COUNTED = {"trt-bls-old", "trt-llm-api", "trt-llm-api-streamed", "vllm-old"}
"""Models that do not say how many tokens they made: the tokenizer counts what can be seen."""
SILENT_END = {"vllm"}
TEXT = "Hello 你好 🙂 end."

every = pytest.mark.parametrize("model", FORMS, ids=lambda one: one.name)
every_dialect = pytest.mark.parametrize("model", PER_DIALECT, ids=lambda one: one.name)
streamed = pytest.mark.parametrize("model", STREAMED, ids=lambda one: one.name)
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def said(text: str, **remark: object) -> PreparedPrompt:
    """Return a prompt to which the answer is `text`."""
    written = "@" + json.dumps({"say": text, **remark}, ensure_ascii=False)
    return PreparedPrompt(ids=tuple(written.encode()), text=written)


def ask(engines: Stage, model: StandIn, *prompts: PreparedPrompt, **changes: Any) -> GenerateRequest:
    place = {"grpc": engines.triton.grpc, "model": model.name, "tokenizer_digest": engines.digest}
    parameters = {"max_tokens": 200, "eos_token_ids": (BYTE_EOS,), **changes.pop("sampling", {})}
    fields: dict[str, Any] = {
        "request_id": f"d{next(NUMBERS)}",
        "target": target(model.dialect, slots=4, **place),
        "prompts": prompts or (said(TEXT),),
        "sampling": sampling(**parameters),
        "backend": backend(end_id=BYTE_EOS) if model.dialect is Dialect.FASTERTRANSFORMER else backend(),
        "stream": True,
    }
    return generate_request(**fields | changes)


async def answer(engines: Stage, session: aiohttp.ClientSession, request: GenerateRequest) -> Reply:
    return await engines.worker.ask(session, request)
