"""Sets an embedding model up, measures the paths to it in turns, and takes it down."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.chain.stack import conch_up
from bench.conversations import ROOT
from bench.encoders import rows
from bench.encoders.embedding_clients import DirectEmbeddings, GatewayEmbeddings, WorkerEmbeddings
from bench.encoders.inputs import Inputs
from bench.encoders.measure import measure
from bench.options import Effort
from bench.processes import PYTHON, CannotMeasure, running, tail, until
from bench.report import Section

MODEL = ROOT / "examples" / "minilm"
_DEPLOYMENT = f"""\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: minilm}}
spec:
  kind: Embedding
  source: {{path: {MODEL}}}
  engine:
    cpu: {{maxBatchSize: 32}}
"""


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure embeddings of 32 tokens."""
    async with conch_up(folder, MODEL, _DEPLOYMENT) as stack, _worker(folder) as worker_url:
        inputs = Inputs(MODEL)
        async with (
            DirectEmbeddings(stack.grpc, stack.engine_model) as direct,
            WorkerEmbeddings(worker_url, stack.grpc, stack.engine_model) as worker,
            GatewayEmbeddings(stack.url) as conch,
        ):
            return rows.sections(await measure(inputs, direct, worker, conch, effort))


@asynccontextmanager
async def _worker(folder: Path) -> AsyncIterator[str]:
    """Run an embed-worker of the benchmark's own, which no gateway knows, and give its URL."""
    ready, log = folder / "worker.json", folder / "worker.log"
    settings = {
        "CONCH_REDIS_URL": "redis://127.0.0.1:9/0",
        "CONCH_HOST": "127.0.0.1",
        "CONCH_PORT": "0",
        "CONCH_ADMIN_HOST": "127.0.0.1",
        "CONCH_ADMIN_PORT": "0",
        "CONCH_READY_FILE": str(ready),
    }
    async with running([PYTHON, "-m", "conch_embed_worker.main"], log, environment=settings) as process:
        if not await until(lambda: ready.exists() or process.returncode is not None, 30.0) or not ready.exists():
            raise CannotMeasure(f"The embed-worker did not start: {tail(log)}")
        yield str(json.loads(ready.read_text())["url"])
