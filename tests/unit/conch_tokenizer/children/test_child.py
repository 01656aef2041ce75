import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit import frames
from conch_kit.frames import Frame, FrameReader
from conch_tokenizer.children.child import Child, LoadedTokenizers
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.children.service_orders import LoadOrder
from conch_tokenizer.children.work_board import WorkBoard, WorkRow, board_memory
from conch_tokenizer.errors import BundleMissing, WorkStage
from conch_tokenizer.text.model_tokenizer import ModelTokenizer
from testkit.builders.picture_chats import picture_chat
from testkit.models.picture_model import make_picture_model
from testkit.models.pictures import file_of, picture

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


@pytest.fixture
def service() -> Iterator[socket.socket]:
    """Give a socket for children that are asked without one."""
    with socket.socket() as unused:
        yield unused


@pytest.fixture
def child(model: ModelTokenizer, service: socket.socket) -> Child:
    tokenizers = LoadedTokenizers(2, Loader(model))
    tokenizers.load(DIGEST, Path("folder"))
    return make_child(tokenizers, service)


def make_child(tokenizers: LoadedTokenizers, service: socket.socket) -> Child:
    return Child(service, tokenizers, GrammarChecker(BOUNDS), row(), max_text_bytes=100_000)


def row() -> WorkRow:
    with board_memory(2) as memory:
        return WorkBoard(memory).row(1)


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
    assert ask(child, Operation.LOAD, LoadOrder(OTHER, Path("/elsewhere")).pack())[0] is ReplyKind.DONE
    assert ask(child, Operation.DETOKENIZE, {"digest": OTHER, "tokens": []})[0] is ReplyKind.DONE


def test_files_that_cannot_be_loaded_are_reported(tmp_path: Path, service: socket.socket) -> None:
    child = make_child(LoadedTokenizers(1), service)
    reply, reason = ask(child, Operation.LOAD, LoadOrder(DIGEST, tmp_path).pack())
    assert reply is ReplyKind.UNREADABLE
    assert b"cannot load" in reason


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"digest": "%b", "prompts": [1.5]}' % DIGEST.encode(), "prompts"),
        (b'{"digest": "%b", "prompts": ["\\ud800"]}' % DIGEST.encode(), "truncated"),
        (b'{"digest": "%b", "chat": {"messages": [{"a": ' % DIGEST.encode() + b"[" * 100_000, "recursion"),
    ],
)
def test_a_message_of_the_wrong_shape_is_refused(body: bytes, said: str, child: Child) -> None:
    reply, refusal = ask(child, Operation.PREPARE, body)
    assert reply is ReplyKind.REFUSED
    assert said in refusal["error"]["message"]


@pytest.mark.parametrize("limit", ["truncate", "truncate_pairs", "truncate_firsts"])
def test_rows_are_not_cut_at_less_than_nothing(limit: str, child: Child) -> None:
    rows = {"digest": DIGEST, "texts": ["Hello"], "pairs": ["there"], limit: -1}
    reply, refusal = ask(child, Operation.PREPARE_ROWS, rows)
    assert reply is ReplyKind.REFUSED
    assert refusal["error"]["message"].startswith(f"{limit}: ")


def test_a_refusal_carries_param_and_code(child: Child) -> None:
    chat = {"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ raise_exception('no') }}"}
    reply, refusal = ask(child, Operation.PREPARE, {"digest": DIGEST, "chat": chat})
    assert reply is ReplyKind.REFUSED
    assert (refusal["error"]["param"], refusal["error"]["code"]) == ("messages", "template_error")


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
    long = frames.pack(Operation.TOKENIZE, orjson.dumps({"digest": DIGEST, "prompt": "word " * 10_000}))
    tokenizers = LoadedTokenizers(1, Loader(model))
    tokenizers.load(DIGEST, Path("folder"))
    ours, theirs = socket.socketpair()
    hand_over, handed_over = socket.socketpair()
    with ours, theirs, hand_over, handed_over:
        ours.sendall(long)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(OSError, match="closed"):
            make_child(tokenizers, theirs).serve(handed_over)
        found = FrameReader().feed(ours.recv(1_000_000))
    assert [frame.kind for frame in found] == [ReplyKind.READY, ReplyKind.ENCODING, ReplyKind.DONE]
    assert found[0].payload == str(os.getpid()).encode()


def test_a_child_tells_which_picture_it_reads(tmp_path: Path) -> None:
    tokenizers = LoadedTokenizers(1)
    tokenizers.load(DIGEST, make_picture_model(tmp_path / "model"))
    files = [file_of(picture(seed=seed)) for seed in range(2)]
    request = _showing("Which?", *files)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = make_child(tokenizers, theirs)
        kind, answer = ask(child, Operation.PREPARE, request)
        assert (kind, len(answer["prompts"][0]["pictures"])) == (ReplyKind.DONE, 2)
        assert ask(child, Operation.PREPARE, request)[0] is ReplyKind.DONE  # both are at hand
        found = FrameReader().feed(ours.recv(1_000_000))
    assert [(frame.kind, frame.payload) for frame in found] == [(ReplyKind.ENCODING, b"0"), (ReplyKind.ENCODING, b"1")]


def test_a_child_notes_which_picture_of_a_lanes_request_it_reads(tmp_path: Path, service: socket.socket) -> None:
    tokenizers = LoadedTokenizers(1)
    tokenizers.load(DIGEST, make_picture_model(tmp_path / "model"))
    worked_on = row()
    child = Child(service, tokenizers, GrammarChecker(BOUNDS), worked_on, max_text_bytes=100_000)
    worked_on.begin(1, 2)
    assert ask(child, Operation.PREPARE, _showing(file_of(picture()), b"none"))[0] is ReplyKind.REFUSED
    assert (worked_on.picture, worked_on.stage) == (1, WorkStage.ENCODING)


@pytest.mark.parametrize("digest", ["", "../../etc", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_only_a_digest_becomes_the_name_of_a_folder(digest: str, child: Child) -> None:
    reply, refusal = ask(child, Operation.PREPARE, {"digest": digest, "prompts": ["Hello"]})
    assert (reply, refusal["error"]["message"].partition(":")[0]) == (ReplyKind.REFUSED, "digest")


def _showing(*parts: str | bytes) -> bytes:
    return json.dumps({"digest": DIGEST, "chat": picture_chat(parts), "picture_limits": {}}).encode()
