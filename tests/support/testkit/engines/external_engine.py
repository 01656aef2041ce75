"""A real tritonserver on this machine that answers every request with the same words: someone else's engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer

from testkit.engines.backend_stand_ins import install, parameter
from testkit.processes.conch_up import EXAMPLE
from testkit.servers.triton import RunningTriton, triton_server

MODEL = "fastertransformer"
"""The name of the model inside it, and its dialect."""
ANSWER = "Hello! How can I help you today?"
END = 2041
FOLDER = EXAMPLE.parent / "tiny-chat"


@contextmanager
def external_engine(folder: Path) -> Iterator[RunningTriton]:
    """Give a server with the contract model; its files are written into `folder`."""
    repository = folder / "repository"
    ids = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(ANSWER, add_special_tokens=False).ids
    install(repository, MODEL, MODEL, changes=parameter("answer", [*ids, END]) | parameter("end_id", END))
    with triton_server(repository, MODEL, folder=folder) as server:
        yield server
