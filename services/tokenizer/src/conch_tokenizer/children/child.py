"""One child: reads a request, does it and answers, until the service closes the connection.

A child holds the tokenizers and runs the templates. It is forked by `zygote`, talks to a `connection` over one socket,
and works on one request at a time. It may be killed at any moment: all that it holds can be loaded again.
"""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import orjson
from pydantic import BaseModel, ValidationError

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.tokenization import (
    CheckGrammarRequest,
    DecodeIdsRequest,
    EncodeTextRequest,
    PrepareRequest,
)
from conch_contracts.names import Digest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.children import frames
from conch_tokenizer.children.frames import Frame, Operation, ReplyKind, Wire
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.errors import BundleMissing, BundleUnreadable
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
        self, wire: Wire, tokenizers: LoadedTokenizers, grammars: GrammarChecker, *, max_text_bytes: int
    ) -> None:
        self._wire = wire
        self._tokenizers = tokenizers
        self._grammars = grammars
        self._max_text_bytes = max_text_bytes

    def serve(self) -> None:
        """Answer until the other side closes the connection."""
        self._send(ReplyKind.READY, str(os.getpid()).encode())
        while (frame := frames.receive(self._wire)) is not None:
            self._send(*self.answer(frame))

    def answer(self, frame: Frame) -> tuple[ReplyKind, bytes]:
        """Do what one frame asks and return the reply."""
        try:
            return ReplyKind.DONE, self._do(Operation(frame.kind), frame.payload)
        except InvalidRequest as exc:
            return ReplyKind.REFUSED, _refusal(exc)
        except ValidationError as exc:
            return ReplyKind.REFUSED, _refusal(InvalidRequest(_first_problem(exc)))
        except BundleMissing as exc:
            return ReplyKind.MISSING, exc.digest.encode()
        except BundleUnreadable as exc:
            return ReplyKind.UNREADABLE, str(exc).encode()
        except Exception:  # a process edge: the service must get an answer
            log.exception("A request failed in a child.")
            return ReplyKind.FAILED, b""

    def _do(self, operation: Operation, payload: bytes) -> bytes:
        match operation:
            case Operation.LOAD:
                digest, folder = frames.parse_load_payload(payload)
                self._tokenizers.load(Digest(digest), Path(folder))
                return b""
            case Operation.PREPARE:
                prepare = PrepareRequest.model_validate_json(payload)
                return _json(prepare_prompts(self._tokenizer(prepare.digest), prepare))
            case Operation.TOKENIZE:
                encode = EncodeTextRequest.model_validate_json(payload)
                return _json(tokenize(self._tokenizer(encode.digest), encode))
            case Operation.DETOKENIZE:
                decode = DecodeIdsRequest.model_validate_json(payload)
                return _json(detokenize(self._tokenizer(decode.digest), decode))
            case Operation.PREPARE_ROWS:
                texts = PrepareRowsRequest.model_validate_json(payload)
                return _json(prepare_rows(self._tokenizer(texts.digest), texts))
            case Operation.LOAD_FOR_GRAMMARS:
                digest, folder = frames.parse_load_payload(payload)
                self._grammars.load(Digest(digest), Path(folder))
                return b""
            case Operation.CHECK_GRAMMAR:
                self._grammars.check(CheckGrammarRequest.model_validate_json(payload))
                return b"{}"
            case _:
                assert_never(operation)

    def _tokenizer(self, digest: Digest) -> LimitedTokenizer:
        model, renderer = self._tokenizers.get(digest)
        return LimitedTokenizer(model, renderer, self._max_text_bytes, lambda: self._send(ReplyKind.ENCODING, b""))

    def _send(self, reply: ReplyKind, payload: bytes) -> None:
        self._wire.sendall(frames.pack(reply, payload))


def _json(message: BaseModel) -> bytes:
    return message.model_dump_json().encode()


def _refusal(exc: InvalidRequest) -> bytes:
    return orjson.dumps({"message": exc.message, "param": exc.param, "code": exc.code})


def _first_problem(exc: ValidationError) -> str:
    problem = exc.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"])) or "body"
    return f"{where}: {problem['msg']}"
