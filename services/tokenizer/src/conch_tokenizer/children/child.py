"""One child: reads a request, does it and answers, until the service closes the connection.

A child holds the tokenizers and runs the templates. It is forked by `zygote`; requests come from its service's
`connection` and, past the service, on lanes. It works on one at a time. It may be killed at any moment: all that it
holds can be loaded again.
"""

import logging
import os
import select
import socket
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.message import InvalidMessage, from_json, to_json
from conch_contracts.messages.tokenization import (
    CheckGrammarRequest,
    DecodeIdsRequest,
    EncodeTextRequest,
    PrepareRequest,
)
from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit import frames
from conch_kit.errors import InvalidRequest
from conch_kit.frames import Frame
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.lane_server import LaneServer
from conch_tokenizer.children.service_orders import LaneOrder, LoadOrder
from conch_tokenizer.children.work_board import WorkRow
from conch_tokenizer.errors import BundleMissing, BundleUnreadable
from conch_tokenizer.pictures.picture_reader import PictureReader
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from conch_tokenizer.text.prompts import prepare_prompts
from conch_tokenizer.text.tokenize_detokenize import detokenize, tokenize

log = logging.getLogger(__name__)


class LoadedTokenizers:
    """The tokenizers that this child has loaded, the least recently used dropped first."""

    def __init__(self, size: int, loader: Callable[[Path], ModelTokenizer] = load) -> None:
        self._size = size
        self._loader = loader
        self._loaded: OrderedDict[Digest, tuple[ModelTokenizer, ChatRenderer]] = OrderedDict()

    def load(self, digest: Digest, folder: Path) -> None:
        """Load a bundle's files; raises BundleUnreadable."""
        if digest in self._loaded:
            return
        model = self._loader(folder)
        self._loaded[digest] = (model, ChatRenderer(model))
        while len(self._loaded) > self._size:
            self._loaded.popitem(last=False)

    def get(self, digest: Digest) -> tuple[ModelTokenizer, ChatRenderer]:
        """Return a loaded tokenizer; raises BundleMissing."""
        if digest not in self._loaded:
            raise BundleMissing(digest)
        self._loaded.move_to_end(digest)
        return self._loaded[digest]


class Child:
    """Answers requests one by one."""

    def __init__(
        self,
        service: socket.socket,
        tokenizers: LoadedTokenizers,
        grammars: GrammarChecker,
        row: WorkRow,
        *,
        max_text_bytes: int,
    ) -> None:
        self._service = service
        self._tokenizers = tokenizers
        self._grammars = grammars
        self._row = row
        self._max_text_bytes = max_text_bytes
        self._pictures = PictureReader(self._encoding_begins)

    def serve(self, handed_over: socket.socket) -> None:
        """Answer until the service is gone, which raises OSError; lanes come through `handed_over`."""
        self._send(ReplyKind.READY, str(os.getpid()).encode())
        poller = select.poll()
        lanes = LaneServer(poller, self.answer, self._row, self._answer_service)
        service, new_lane = self._service.fileno(), handed_over.fileno()
        poller.register(service, select.POLLIN)
        poller.register(new_lane, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll():
                if descriptor == service:
                    self._answer_service()
                elif descriptor == new_lane:
                    order, wire = LaneOrder.receive(handed_over)
                    lanes.open(wire, order.number, order.of)
                else:
                    lanes.serve(descriptor)

    def _answer_service(self) -> None:
        """Answer the service's request, if there is one."""
        if not select.select([self._service], [], [], 0)[0]:
            return
        frame = frames.receive(self._service)
        if frame is None:
            raise OSError("the service has closed the connection")
        self._send(*self.answer(frame))

    def answer(self, frame: Frame) -> tuple[ReplyKind, bytes]:
        """Do what one frame asks and return the reply."""
        try:
            return ReplyKind.DONE, self._do(Operation(frame.kind), frame.payload)
        except InvalidRequest as exc:
            return ReplyKind.REFUSED, exc.body()
        except InvalidMessage as exc:
            return ReplyKind.REFUSED, InvalidRequest(str(exc)).body()
        except BundleMissing as exc:
            return ReplyKind.MISSING, exc.digest.encode()
        except BundleUnreadable as exc:
            return ReplyKind.UNREADABLE, str(exc).encode()
        except Exception:  # a process edge: the service must get an answer
            log.exception("A request failed in a child.")
            return ReplyKind.FAILED, b""

    def _do(self, operation: Operation, payload: bytes) -> bytes:
        match operation:
            case Operation.PING:
                return b""
            case Operation.LOAD:
                load = LoadOrder.parse(payload)
                self._tokenizers.load(load.digest, load.folder)
                return b""
            case Operation.PREPARE:
                prepare = from_json(PrepareRequest, payload)
                return to_json(prepare_prompts(self._tokenizer(prepare.digest), prepare))
            case Operation.TOKENIZE:
                encode = from_json(EncodeTextRequest, payload)
                return to_json(tokenize(self._tokenizer(encode.digest), encode))
            case Operation.DETOKENIZE:
                decode = from_json(DecodeIdsRequest, payload)
                return to_json(detokenize(self._tokenizer(decode.digest), decode))
            case Operation.PREPARE_ROWS:
                texts = from_json(PrepareRowsRequest, payload)
                return to_json(prepare_rows(self._tokenizer(texts.digest), texts))
            case Operation.LOAD_FOR_GRAMMARS:
                load = LoadOrder.parse(payload)
                self._grammars.note(load.digest, load.folder)
                return b""
            case Operation.CHECK_GRAMMAR:
                self._grammars.check(from_json(CheckGrammarRequest, payload))
                return b"{}"
            case _:
                assert_never(operation)

    def _tokenizer(self, digest: Digest) -> LimitedTokenizer:
        model, renderer = self._tokenizers.get(digest)
        return LimitedTokenizer(model, renderer, self._max_text_bytes, self._encoding_begins, self._pictures)

    def _encoding_begins(self, picture: int | None = None) -> None:
        if self._row.working:
            self._row.encoding(picture)
        else:
            self._send(ReplyKind.ENCODING, b"" if picture is None else str(picture).encode())

    def _send(self, reply: ReplyKind, payload: bytes) -> None:
        self._service.sendall(frames.pack(reply, payload))
