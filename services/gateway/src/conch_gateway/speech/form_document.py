"""Pure: from the fields of a form, which are all text, to the document that a JSON body would have been.

A list is a field that is repeated, as `include`, `include[]` or `include[0]`; an object is JSON, or `vllm_xargs[key]`
for each of its members. An empty text says nothing: clients write one for what they leave out.
"""

import re
from collections.abc import Mapping, Sequence

from conch_gateway.errors.bad_request import MAX_PARAM_CHARS, conflicting, invalid
from conch_gateway.http.body import parse
from conch_gateway.http.form_parser import FormField, twice
from conch_kit.errors import InvalidRequest

LISTS = frozenset(
    {"include", "keywords", "known_speaker_names", "known_speaker_references", "languages", "timestamp_granularities"}
)
OBJECTS = frozenset({"chunking_strategy", "vllm_xargs"})
TEXTS = frozenset({"hotwords", "language", "model", "prompt", "request_id", "response_format", "to_language", "user"})
"""Fields whose text is not to be read as a number or a switch."""

_NAME = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_SWITCHES: Mapping[str, bool] = {"true": True, "false": False, "True": True, "False": False}


def document_of(fields: Sequence[FormField]) -> dict[str, object]:
    """Return the fields by their names; raises InvalidRequest for one that is there more than once, or in two forms."""
    document: dict[str, object] = {}
    for field in fields:
        found = _NAME.fullmatch(field.name)
        name, key = (field.name, None) if found is None else (found[1], found[2])
        if name in LISTS or key == "":
            _append(document, name, field.text)
        elif key is not None:
            _enter(document, name, key, _value(field.text))
        elif name in document:
            raise twice(name)
        elif field.text:
            document[name] = _single(name, field.text)
    return document


def _append(document: dict[str, object], name: str, text: str) -> None:
    items = document.setdefault(name, [])
    if not isinstance(items, list):
        raise twice(name)
    if text:
        items.append(text)


def _enter(document: dict[str, object], name: str, key: str, value: object) -> None:
    members = document.setdefault(name, {})
    if not isinstance(members, dict):
        raise conflicting(name[:MAX_PARAM_CHARS], "is given in two forms")
    if key in members:
        raise twice(f"{name}.{key}")
    members[key] = value


def _single(name: str, text: str) -> object:
    if name in TEXTS:
        return text
    if name in OBJECTS and (name == "vllm_xargs" or text.lstrip().startswith("{")):
        try:
            return parse(text.encode())
        except InvalidRequest:
            raise invalid(name, "expected a JSON object") from None
    return _value(text)


def _value(text: str) -> object:
    """Return a number or a switch where the text is one; what is wrong with others, their types say later."""
    if text in _SWITCHES:
        return _SWITCHES[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
