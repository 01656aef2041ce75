"""A real tritonserver on this machine that answers every request with the same words: someone else's engine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer

from testkit.conch import EXAMPLE
from testkit.servers.triton import RunningTriton, triton_server

MODEL = "fastertransformer"
"""The name of the model inside it, and its dialect."""
ANSWER = "Hello! How can I help you today?"
END = 2041
FOLDER = EXAMPLE.parent / "tiny-chat"
_CONTRACT_MODEL = Path(__file__).parents[1] / "triton_models" / MODEL


@contextmanager
def external_engine(folder: Path) -> Iterator[RunningTriton]:
    """Give a server with the contract model; its files are written into `folder`."""
    repository = folder / "repository"
    model = shutil.copytree(_CONTRACT_MODEL, repository / MODEL)
    ids = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(ANSWER, add_special_tokens=False).ids
    config = (model / "config.pbtxt").read_text()
    config = config.replace('"answer" value: { string_value: "[]"', f'"answer" value: {{ string_value: "{[*ids, END]}"')
    config = config.replace('"end_id" value: { string_value: "0"', f'"end_id" value: {{ string_value: "{END}"')
    (model / "config.pbtxt").write_text(config)
    with triton_server(repository, MODEL, folder=folder) as server:
        yield server
