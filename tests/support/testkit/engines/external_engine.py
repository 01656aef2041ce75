"""A real tritonserver on this machine that answers every request with the same words: someone else's engine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer

from testkit.engines.backend_stand_ins import install, parameter
from testkit.processes.conch_up import EXAMPLE
from testkit.servers.triton import LOOPBACK, RunningTriton, triton_server

MODEL = "fastertransformer"
"""The name of the model inside it, and its dialect."""
ANSWER = "Hello! How can I help you today?"
END = 2041
FOLDER = EXAMPLE.parent / "tiny-chat"


def own_address() -> str:
    """Return the address by which others reach this machine; of an engine, an API server takes no loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:  # a machine without a network runs no cluster either
            return LOOPBACK
        return str(asked.getsockname()[0])


@contextmanager
def external_engine(folder: Path, host: str = LOOPBACK) -> Iterator[RunningTriton]:
    """Give a server with the contract model, at this address of this machine; its files are written into `folder`."""
    repository = folder / "repository"
    ids = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(ANSWER, add_special_tokens=False).ids
    install(repository, MODEL, MODEL, changes=parameter("answer", [*ids, END]) | parameter("end_id", END))
    with triton_server(repository, MODEL, folder=folder, host=host) as server:
        yield server
