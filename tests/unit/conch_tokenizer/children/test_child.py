import io
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from conch_contracts.names import Digest
from conch_tokenizer.children import frames
from conch_tokenizer.children.child import Child, LoadedTokenizers
from conch_tokenizer.children.frames import Frame, FrameReader, Operation, ReplyKind
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.errors import BundleMissing
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

DIGEST = Digest("0" * 64)
OTHER = Digest("1" * 64)
BOUNDS = ChildLimits(
    memory_bytes=2**31, max_text_bytes=2**20, models_in_memory=2, grammar_memory_bytes=2**28, grammar_cpu_s=60
)


class Loader:
    """Gives one model for every folder and remembers which were asked for."""

    def __init__(self, model: ModelTokenizer) -> None:
        self.model = model
        self.loaded: list[str] = []

    def __call__(self, folder: Path) -> ModelTokenizer:
        self.loaded.append(folder.name)
        return self.model


class FakeWire:
    """Gives the bytes that a service would send, then ends; keeps what the child says."""

    def __init__(self, incoming: bytes) -> None:
        self._incoming = io.BytesIO(incoming)
        self.said = FrameReader()
        self.frames: list[Frame] = []

    def recv_into(self, buffer: memoryview) -> int:
        return self._incoming.readinto(buffer)

    def sendall(self, data: bytes) -> None:
        self.frames += self.said.feed(data)


@pytest.fixture
def child(model: ModelTokenizer) -> Child:
    tokenizers = LoadedTokenizers(2, Loader(model))
    tokenizers.load(DIGEST, Path("folder"))
    return Child(FakeWire(b""), tokenizers, GrammarChecker(BOUNDS), max_text_bytes=100_000)


def ask(child: Child, operation: int, payload: object) -> tuple[ReplyKind, Any]:
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    reply, answer = child.answer(Frame(operation, body))
    return reply, orjson.loads(answer) if reply in (ReplyKind.DONE, ReplyKind.REFUSED) and answer else answer


def test_each_operation_has_its_answer(child: Child) -> None:
    reply, prepared = ask(child, Operation.PREPARE, {"digest": DIGEST, "prompts": ["Hello"]})
    assert (reply, prepared["prompts"][0]["text"]) == (ReplyKind.DONE, "Hello")
    ids = prepared["prompts"][0]["ids"]
    assert ask(child, Operation.TOKENIZE, {"digest": DIGEST, "prompt": "Hello"})[1]["tokens"] == ids
    assert ask(child, Operation.DETOKENIZE, {"digest": DIGEST, "tokens": ids}) == (ReplyKind.DONE, {"prompt": "Hello"})


def test_a_bundle_that_is_not_loaded_is_named(child: Child) -> None:
    assert ask(child, Operation.DETOKENIZE, {"digest": OTHER, "tokens": []}) == (ReplyKind.MISSING, OTHER.encode())


def test_a_bundle_is_loaded_on_demand(child: Child) -> None:
    assert ask(child, Operation.LOAD, frames.load_payload(OTHER, "/elsewhere"))[0] is ReplyKind.DONE
    assert ask(child, Operation.DETOKENIZE, {"digest": OTHER, "tokens": []})[0] is ReplyKind.DONE


def test_files_that_cannot_be_loaded_are_reported(tmp_path: Path) -> None:
    child = Child(FakeWire(b""), LoadedTokenizers(1), GrammarChecker(BOUNDS), max_text_bytes=1024)
    reply, reason = ask(child, Operation.LOAD, frames.load_payload(DIGEST, str(tmp_path)))
    assert reply is ReplyKind.UNREADABLE
    assert b"cannot load" in reason


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Invalid JSON"),
        (b"[]", "should be an object"),
        (b'{"digest": "%b", "prompts": [1.5]}' % DIGEST.encode(), "prompts"),
        (b'{"digest": "x", "prompts": ["\\ud800"]}', "Invalid JSON"),
        (b'{"digest": "x", "prompts": ' + b"[" * 100_000, "Invalid JSON"),
    ],
)
def test_a_message_of_the_wrong_shape_is_refused(body: bytes, said: str, child: Child) -> None:
    reply, refusal = ask(child, Operation.PREPARE, body)
    assert reply is ReplyKind.REFUSED
    assert said in refusal["message"]


def test_a_refusal_carries_param_and_code(child: Child) -> None:
    chat = {"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ raise_exception('no') }}"}
    reply, refusal = ask(child, Operation.PREPARE, {"digest": DIGEST, "chat": chat})
    assert reply is ReplyKind.REFUSED
    assert (refusal["param"], refusal["code"]) == ("messages", "template_error")


def test_a_fault_of_ours_is_answered_and_logged(child: Child, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(child, 99, b"{}") == (ReplyKind.FAILED, b"")
    assert "A request failed in a child." in caplog.text


def test_the_least_recently_used_tokenizer_is_dropped(model: ModelTokenizer) -> None:
    loader = Loader(model)
    tokenizers = LoadedTokenizers(2, loader)
    first, second, third = (Digest(str(number) * 64) for number in range(3))
    tokenizers.load(first, Path("first"))
    tokenizers.load(second, Path("second"))
    tokenizers.get(first)
    tokenizers.load(third, Path("third"))
    tokenizers.load(first, Path("first"))
    assert loader.loaded == ["first", "second", "third"]
    with pytest.raises(BundleMissing):
        tokenizers.get(second)


def test_a_child_announces_itself_and_long_work(model: ModelTokenizer) -> None:
    wire = FakeWire(frames.pack(Operation.TOKENIZE, orjson.dumps({"digest": DIGEST, "prompt": "word " * 10_000})))
    tokenizers = LoadedTokenizers(1, Loader(model))
    tokenizers.load(DIGEST, Path("folder"))
    Child(wire, tokenizers, GrammarChecker(BOUNDS), max_text_bytes=100_000).serve()
    assert [frame.kind for frame in wire.frames] == [ReplyKind.READY, ReplyKind.ENCODING, ReplyKind.DONE]
    assert wire.frames[0].payload == str(os.getpid()).encode()


@pytest.mark.parametrize("digest", ["", "../../etc", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_only_a_digest_becomes_the_name_of_a_folder(digest: str, child: Child) -> None:
    reply, refusal = ask(child, Operation.PREPARE, {"digest": digest, "prompts": ["Hello"]})
    assert (reply, refusal["message"].partition(":")[0]) == (ReplyKind.REFUSED, "digest")
