"""A child against gateways that send anything: each whole request has one answer, and no child breaks."""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch_contracts.messages.tokenizer_frames import LANE_OPERATIONS, MAX_LANE_REQUEST_BYTES, Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit.frames import HEADER_BYTES, Frame, FrameReader, FrameTooLarge, pack
from conch_tokenizer.children.child import Child, LoadedTokenizers
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.lane_server import LaneServer
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

DIGEST = Digest("0" * 64)
BOUNDS = ChildLimits(
    memory_bytes=2**31, max_text_bytes=2**20, models_in_memory=2, grammar_memory_bytes=2**28, grammar_cpu_s=60
)
_KINDS = st.one_of(st.sampled_from([int(kind) for kind in LANE_OPERATIONS.values()]), st.integers(0, 255))
_FRAMES = st.builds(pack, _KINDS, st.binary(max_size=30), st.integers(0, 2**32 - 1))
_HUGE = st.just(pack(1, b"", 1)[: HEADER_BYTES - 4] + (MAX_LANE_REQUEST_BYTES + 1).to_bytes(4, "big"))
_SENT = st.lists(st.one_of(_FRAMES, _FRAMES, st.binary(max_size=20), _HUGE), max_size=8)


@given(sent=_SENT, cut=st.integers(1, 60))
def test_each_whole_request_is_answered_once_and_in_order(sent: list[bytes], cut: int) -> None:
    data = b"".join(sent)
    with _lane() as (gateway, serve):
        taken = b""
        for at in range(0, len(data), cut):
            try:
                gateway.sendall(data[at : at + cut])
            except BrokenPipeError:
                break  # the lane was closed, as it is over a frame that is too large
            serve()
            taken = data[: at + cut]
        gateway.shutdown(socket.SHUT_WR)
        serve()
        answers = b"".join(iter(lambda: gateway.recv(65536), b""))
    head, _, rest = answers.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    requests, reader = [], FrameReader(MAX_LANE_REQUEST_BYTES)
    for at in range(0, len(taken), cut):
        try:
            requests += reader.feed(taken[at : at + cut])
        except FrameTooLarge:
            break
    assert [(frame.number, frame.payload) for frame in FrameReader().feed(rest)] == [
        (request.number, request.payload if request.kind in LANE_OPERATIONS.values() else b"") for request in requests
    ]


@contextmanager
def _lane() -> Iterator[tuple[socket.socket, Any]]:
    """Give a gateway's end of a lane, and what has the child's end read until there is nothing left."""
    gateway, wire = socket.socketpair()
    poller = select.poll()
    with board_memory(2) as memory:
        row = WorkBoard(memory).row(1)
    lanes = LaneServer(poller, lambda frame: (ReplyKind.DONE, frame.payload), row, lambda: None)
    lanes.open(wire, 1, 1)

    def serve() -> None:
        while ready := [descriptor for descriptor, event in poller.poll(0) if event & (select.POLLIN | select.POLLHUP)]:
            for descriptor in ready:
                lanes.serve(descriptor)

    with gateway, wire:
        yield gateway, serve


_ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10), st.just("\ud800")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
_SOUND = {
    Operation.PREPARE: {"digest": DIGEST, "prompts": ["Hello"]},
    Operation.TOKENIZE: {"digest": DIGEST, "prompt": "Hello"},
    Operation.DETOKENIZE: {"digest": DIGEST, "tokens": [1, 2]},
    Operation.PREPARE_ROWS: {"digest": DIGEST, "rows": [{"text": "Hello"}]},
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), operation=st.sampled_from(list(_SOUND)))
def test_a_message_of_any_form_is_answered_or_refused(
    model: ModelTokenizer, data: st.DataObject, operation: Operation
) -> None:
    sound = _SOUND[operation]
    changed = {name: value if data.draw(st.booleans()) else data.draw(_ANY) for name, value in sound.items()}
    changed |= data.draw(st.dictionaries(st.sampled_from(["messages", "tools", "options", "add_special"]), _ANY))
    message = json.dumps(changed).encode()
    cut = data.draw(st.one_of(st.just(len(message)), st.integers(0, len(message))))
    tokenizers = LoadedTokenizers(2, lambda _: model)
    tokenizers.load(DIGEST, Path("folder"))
    with board_memory(2) as memory, socket.socket() as service:
        child = Child(service, tokenizers, GrammarChecker(BOUNDS), WorkBoard(memory).row(1), max_text_bytes=100_000)
        kind, _ = child.answer(Frame(operation, message[:cut]))
    assert kind in (ReplyKind.DONE, ReplyKind.REFUSED, ReplyKind.MISSING)
