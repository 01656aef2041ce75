"""What sight costs: texts on a model that sees beside the same model without eyes, and a picture that comes again."""

import asyncio
import base64
import os
from contextlib import AsyncExitStack
from functools import partial
from io import BytesIO
from pathlib import Path

import orjson
from PIL import Image

from bench.chain.stack import conch_up
from bench.clients.posting import PostingClient
from bench.conversations import ROOT
from bench.options import Effort, Part
from bench.report import Comparison, Goal, Row, Section, Unit
from bench.turns import Path as Turn
from bench.turns import medians

SEEING, BLIND = "tiny-vlm", "tiny-chat"
"""The same language model, but for its eyes."""
STREAMS, TOKENS = 16, 400
SIDE = 64
GOAL = Goal(0.98, at_least=True)
WARM_UP = 3
_DEPLOYMENT = """\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: {name}}}
spec:
  kind: LLM
  source: {{path: {folder}}}
  engine:
    cpu: {{maxBatchSize: 16}}
"""


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure answers to texts on both models in turns, and pictures that are new and seen."""
    async with AsyncExitStack() as running:
        clients = {name: await _client(running, folder / name, name) for name in (SEEING, BLIND)}
        texts = await medians(
            lambda: {name: partial(_answers, client, name) for name, client in clients.items()},
            3 * effort.relay_pairs,
            warm_up=WARM_UP,
        )
        pictures = await medians(lambda: _first_and_again(clients[SEEING]), effort.latency_requests, warm_up=WARM_UP)
    rates = {name: STREAMS * TOKENS / took_ms * 1e3 for name, took_ms in texts.items()}
    text = Row(f"{STREAMS} answers to texts: tokens per second", Unit.RATE, rates[SEEING], rates[BLIND], goal=GOAL)
    again = Row("a request of one token", Unit.MILLISECONDS, pictures["again"], pictures["first"], Comparison.ADDED)
    return (
        Section(f"{Part.PICTURES.heading}: texts alone", "without eyes", (text,), subject="that sees"),
        Section(f"{Part.PICTURES.heading}: one that comes again", "new", (again,), subject="again"),
    )


async def _client(running: AsyncExitStack, folder: Path, name: str) -> PostingClient:
    model = ROOT / "examples" / name
    text = _DEPLOYMENT.format(name=name, folder=model)
    stack = await running.enter_async_context(conch_up(_made(folder), model, text))
    return await running.enter_async_context(PostingClient(stack.url))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _answers(client: PostingClient, model: str) -> None:
    """Have some long answers made at once."""
    await asyncio.gather(*(_chat(client, model, f"Tell me story {number}.", TOKENS) for number in range(STREAMS)))


def _first_and_again(client: PostingClient) -> dict[str, Turn]:
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_new_picture()}"}}
    content = [shown, {"type": "text", "text": "What color is it?"}]
    return {name: partial(_chat, client, SEEING, content, 1) for name in ("first", "again")}


async def _chat(client: PostingClient, model: str, content: object, tokens: int) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": tokens}
    await client.post("/v1/chat/completions", orjson.dumps({**body, "ignore_eos": True, "temperature": 0}))


def _new_picture() -> str:
    file = BytesIO()
    Image.frombytes("RGB", (SIDE, SIDE), os.urandom(SIDE * SIDE * 3)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
