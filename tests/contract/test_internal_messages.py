"""What gateways, tokenizers and workers of two versions may count on while one takes the place of the other."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

import conch_contracts
from conch_contracts.messages.encoding import EncodeRequest, PrepareRowsRequest, PrepareRowsResponse
from conch_contracts.messages.generation import GenerateRequest, SamplingParameters, Usage
from conch_contracts.messages.message import Message
from conch_contracts.messages.pictures import FetchPictureRequest
from conch_contracts.messages.tokenization import (
    CheckGrammarRequest,
    DecodeIdsRequest,
    DecodeIdsResponse,
    EncodeTextRequest,
    EncodeTextResponse,
    PrepareRequest,
    PrepareResponse,
)
from conch_contracts.messages.transcription import SpeechUsage, TranscribeRequest
from testkit.builders.newer_messages import of_a_newer_version

DIGEST = "d" * 64
SAMPLING = {"max_tokens": 4}
TARGET = {"grpc": "e:1", "model": "m", "dialect": "tokens", "tokenizer_digest": DIGEST}
GRAMMAR = {"kind": "regex", "definition": "a"}
THINKING = {"parser": "think"}
CALLS = {"parser": "hermes", "names": ["f"]}
GENERATE = {
    "request_id": "r",
    "response_id": "chatcmpl-1",
    "api": "chat",
    "model": "m",
    "created": 7,
    "target": TARGET,
    "prompts": [{"ids": [1], "text": "a"}],
    "sampling": SAMPLING,
}
ENCODE = {"request_id": "r", "target": {"address": "e:1", "model": "m"}, "task": "embed", "rows": [{"ids": [1]}]}
SPEECH = TARGET | {"dialect": "speech", "context": 448}
TRANSCRIBE = {
    "request_id": "r",
    "model": "m",
    "created": 7,
    "target": SPEECH,
    "task": "transcribe",
    "parameters": SAMPLING,
    "file_bytes": 5,
}
CHAT = {"messages": [{"role": "user", "content": "a"}]}
SHOWN = {"data": "YQ==", "param": "messages.0.content.0.image_url"}
PICTURE = {"data": b"abc", "height": 1, "width": 1, "start": 0, "length": 1, "digest": "d"}
SEEN = {
    "ids": [],
    "picture": {"pixels": b"abc", "height": 1, "width": 1, "scale": [1, 1, 1], "shift": [0, 0, 0], "length": 1},
}
FIRST: list[tuple[type[Message], dict[str, Any]]] = [
    (GenerateRequest, GENERATE),
    (GenerateRequest, GENERATE | {"sampling": SAMPLING | {"grammar": GRAMMAR}, "details": {}, "backend": {}}),
    (GenerateRequest, GENERATE | {"parsing": {"thinking": THINKING, "calls": CALLS}}),
    (SamplingParameters, {"max_tokens": 4, "thinking": {"start_id": 1, "end_id": 2, "opened": False, "tokens": 3}}),
    (Usage, {"prompt_tokens": 1, "completion_tokens": 2}),
    (EncodeRequest, ENCODE),
    (EncodeRequest, ENCODE | {"rows": [SEEN]}),
    (PrepareRowsRequest, {"digest": DIGEST}),
    (PrepareRowsRequest, {"digest": DIGEST, "texts": [None], "pictures": [SHOWN], "picture_limits": {}}),
    (PrepareRowsResponse, {"rows": [{"ids": [1]}]}),
    (PrepareRowsResponse, {"rows": [SEEN]}),
    (PrepareRowsResponse, {"rows": [{"ids": [1], "pictures": [PICTURE]}]}),
    (PrepareRequest, {"digest": DIGEST, "chat": CHAT}),
    (PrepareRequest, {"digest": DIGEST, "chat": CHAT | {"pictures": [SHOWN]}, "picture_limits": {}}),
    (PrepareResponse, {"prompts": [{"ids": [1], "text": "a"}]}),
    (PrepareResponse, {"prompts": [{"ids": [1], "text": "a", "pictures": [PICTURE]}]}),
    (EncodeTextRequest, {"digest": DIGEST}),
    (EncodeTextResponse, {"tokens": [1]}),
    (DecodeIdsRequest, {"digest": DIGEST, "tokens": [1]}),
    (DecodeIdsResponse, {"prompt": "a"}),
    (CheckGrammarRequest, {"digest": DIGEST, "grammar": GRAMMAR}),
    (TranscribeRequest, TRANSCRIBE),
    (SpeechUsage, {"audio_s": 2.5}),
    (FetchPictureRequest, {"url": "https://a/b.png", "allowed_domains": ["a"], "param": "p"}),
]
"""Each message with the fields that it had to have in the first version, and no others. It is added to, not changed."""


@pytest.mark.parametrize(("kind", "first"), FIRST)
def test_the_fields_that_were_enough_once_are_enough_for_ever(kind: type[Message], first: dict[str, Any]) -> None:
    msgspec.convert(type=kind, obj=first)


@pytest.mark.parametrize(("kind", "first"), FIRST)
def test_a_field_of_a_newer_version_is_passed_over_wherever_it_stands(
    kind: type[Message], first: dict[str, Any]
) -> None:
    known = msgspec.convert(type=kind, obj=first)
    assert msgspec.convert(type=kind, obj=of_a_newer_version(known)) == known


@pytest.mark.parametrize(("kind", "first"), FIRST)
def test_a_known_field_is_checked_as_ever(kind: type[Message], first: dict[str, Any]) -> None:
    for name in first:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(type=kind, obj=first | {name: object()})


def test_every_message_is_in_the_table() -> None:
    for module in pkgutil.walk_packages(conch_contracts.__path__, "conch_contracts."):
        importlib.import_module(module.name)
    checked: set[type[Message]] = set()
    for kind, first in FIRST:
        checked |= _kinds(msgspec.convert(type=kind, obj=first))
    known = {kind.__name__ for kind in _all_kinds(Message) if kind.__module__.startswith("conch_contracts.")}
    assert known == {kind.__name__ for kind in checked}


def _kinds(part: Any) -> set[type[Message]]:
    match part:
        case Message():
            return {type(part)}.union(*(_kinds(getattr(part, name)) for name in part.__struct_fields__))
        case tuple():
            return set().union(*(_kinds(item) for item in part))
        case _:
            return set()


def _all_kinds(kind: type[Message]) -> set[type[Message]]:
    below = {each for each in kind.__subclasses__() if not each.__name__.startswith("_")}
    return below.union(*(_all_kinds(each) for each in below))
