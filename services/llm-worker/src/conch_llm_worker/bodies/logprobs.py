r"""Log probabilities as the APIs show them.

All name tokens by their text. A token that is only part of a UTF-8 character has none; it is written as its bytes in
hexadecimal (`\\xe4\\xbd`, in the completion form `bytes:\\xe4\\xbd`), as OpenAI does. The token that ended an answer is
the last one listed, as vLLM does, under its name in the vocabulary: it was made, but is no part of the answer's text.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import orjson

from conch_llm_worker.generation.choice_update import TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary

_FLOOR = -9999.0
"""Stands for minus infinity, which JSON cannot say."""

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | None"


class GrowingLogprobs:
    """The `logprobs` object of a choice while it grows, as JSON: objects would take ten times the memory.

    What is made of each update need not be made at the end, when others would wait for all of it.
    """

    def __init__(self, show: Callable[[Sequence[TokenEntry]], dict[str, Json]]) -> None:
        """Begin an object that `show` makes of its tokens, and whose lists grow with them."""
        self._show = show
        self._rows: dict[str, list[bytes]] = {}

    def add(self, entries: Sequence[TokenEntry]) -> None:
        """Append tokens."""
        for name, rows in self._show(entries).items():
            if isinstance(rows, list) and rows:
                self._rows.setdefault(name, []).append(orjson.dumps(rows)[1:-1])

    def json(self) -> dict[str, Any]:
        """Return the object for `orjson`."""
        empty = self._show(())
        return {name: self._list(name) if isinstance(rows, list) else rows for name, rows in empty.items()}

    def _list(self, name: str) -> orjson.Fragment:
        return orjson.Fragment(b"[%b]" % b",".join(self._rows.get(name, ())))


def chat_logprobs(entries: Sequence[TokenEntry], vocabulary: Vocabulary, *, as_ids: bool = False) -> dict[str, Json]:
    """Return the `logprobs` object of a chat choice; with `as_ids` it names tokens as `token_id:7`."""
    return {"content": response_logprobs(entries, vocabulary, as_ids=as_ids), "refusal": None}


def response_logprobs(entries: Sequence[TokenEntry], vocabulary: Vocabulary, *, as_ids: bool = False) -> list[Json]:
    """Return the `logprobs` list of a text in the Responses API."""
    shown: list[Json] = []
    for entry in entries:
        pairs = zip(entry.top_ids, entry.top, strict=True)
        top: list[Json] = [_chat_token(id_, value, vocabulary, as_ids=as_ids) for id_, value in pairs]
        shown.append({**_chat_token(entry.token_id, entry.logprob, vocabulary, as_ids=as_ids), "top_logprobs": top})
    return shown


def completion_logprobs(
    entries: Sequence[TokenEntry], vocabulary: Vocabulary, *, as_ids: bool = False
) -> dict[str, Json]:
    """Return the `logprobs` object of a completion choice; the chosen token is always among the alternatives."""
    tokens: list[Json] = []
    values: list[Json] = []
    tops: list[Json] = []
    offsets: list[Json] = []
    for entry in entries:
        token = _completion_token(entry.token_id, vocabulary, as_ids=as_ids)
        tokens.append(token)
        values.append(_finite(entry.logprob))
        offsets.append(entry.offset)
        if entry.logprob is None:
            tops.append(None)
            continue
        pairs = zip(entry.top_ids, entry.top, strict=True)
        top: dict[str, Json] = {
            _completion_token(id_, vocabulary, as_ids=as_ids): _finite(value) for id_, value in pairs
        }
        tops.append({**top, token: _finite(entry.logprob)})
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}


def prompt_logprobs(entries: Sequence[TokenEntry], vocabulary: Vocabulary) -> list[Json]:
    """Return for each token of a prompt its log probability and those of its alternatives, by id."""
    return [_prompt_position(entry, vocabulary) for entry in entries]


def _finite(value: float | None) -> float | None:
    """Return a log probability as JSON can say it."""
    if value is None or math.isnan(value):
        return None
    return max(value, _FLOOR)


def _prompt_position(entry: TokenEntry, vocabulary: Vocabulary) -> Json:
    if entry.logprob is None:
        return None
    found: dict[str, Json] = {}
    for rank, (token_id, value) in enumerate(zip(entry.top_ids, entry.top, strict=True), start=1):
        found[str(token_id)] = _prompt_candidate(token_id, value, rank, vocabulary)
    found.setdefault(str(entry.token_id), _prompt_candidate(entry.token_id, entry.logprob, entry.rank, vocabulary))
    return found


def _prompt_candidate(token_id: int, logprob: float, rank: int | None, vocabulary: Vocabulary) -> Json:
    text = vocabulary.token_bytes(token_id).decode("utf-8", "replace")
    return {"logprob": _finite(logprob), "rank": rank, "decoded_token": text}


def _chat_token(token_id: int, logprob: float | None, vocabulary: Vocabulary, *, as_ids: bool) -> dict[str, Json]:
    raw = vocabulary.token_bytes(token_id)
    token = f"token_id:{token_id}" if as_ids else _text(raw) or _escaped(raw)
    return {"token": token, "logprob": _finite(logprob), "bytes": list(raw)}


def _completion_token(token_id: int, vocabulary: Vocabulary, *, as_ids: bool) -> str:
    if as_ids:
        return f"token_id:{token_id}"
    raw = vocabulary.token_bytes(token_id)
    return _text(raw) or (f"bytes:{_escaped(raw)}" if raw else "")


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _escaped(raw: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in raw)
