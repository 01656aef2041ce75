"""Keep control tokens in users' words from acting as control tokens.

A chat template writes control tokens such as `<|im_start|>` around the messages, and the result is one string. Encoded
as it is, the same letters inside a message would become the control token too, and a user could close a turn and open a
system turn. transformers has a cure, and this module applies it: control tokens inside messages, tools and template
arguments are wrapped in two private-use characters before rendering, and the rendered text is encoded in pieces, the
wrapped ones as plain letters.

Encoding in pieces is not always what encoding the whole gives, so it is done only when a message does hold a control
token: every other chat has exactly the ids that `apply_chat_template` gives. Control tokens are the tokenizer's special
tokens, those that `chat_control_tokens` in tokenizer_config.json adds, and what stands for a picture. Other added
tokens (`<think>`, `<tool_call>`) are part of what models write and clients send back, so they keep their meaning.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import encode_marked_chat, mark_control_tokens

T = TypeVar("T")


class ControlTokens:
    """The control tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *others: str) -> None:
        """Take a tokenizer's control tokens, and others that are to be words as well where a user writes them."""
        self._tokenizer = tokenizer
        declared = {*(tokenizer.chat_control_tokens or ()), *others}
        added = tokenizer.added_tokens_decoder.values()
        contents = [token.content for token in added if token.special or token.content in declared]
        longest_first = sorted(contents, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        in_json = [re.escape(orjson.dumps(content)[1:-1]) for content in longest_first]
        self._in_json = re.compile(b"|".join(in_json) or b"(?!)")
        probe = mark_control_tokens("x", re.compile("x"))
        self._unmark = str.maketrans("", "", probe.replace("x", ""))

    def found_in(self, value: Any) -> bool:
        """Tell whether a string somewhere in this JSON value holds a control token."""
        try:
            # What is not in the value as JSON is in none of its strings, and one search takes less than a walk.
            if self._in_json.search(orjson.dumps(value)) is None:
                return False
        except TypeError:  # an integer beyond 64 bits, which JSON may hold all the same
            pass
        return self._found_by_walking(value)

    def _found_by_walking(self, value: Any) -> bool:
        if isinstance(value, str):
            return self._pattern.search(value) is not None
        if isinstance(value, dict):
            return any(self._found_by_walking(item) for item in value.values())
        return isinstance(value, list | tuple) and any(self._found_by_walking(item) for item in value)

    def found_across(self, texts: Sequence[str]) -> bool:
        """Tell whether texts that are written side by side, trimmed or not, make a control token that none holds."""
        if len(texts) < 2:
            return False
        others = [self._pattern.sub("\0", text) for text in texts]
        return self.found_in("".join(others)) or self.found_in("".join(text.strip() for text in others))

    def mark(self, value: T) -> T:
        """Return the value with every control token in its strings marked as words."""
        marked: T = mark_control_tokens(value, self._pattern)
        return marked

    def encode_marked(self, text: str) -> list[int]:
        """Encode a rendered chat whose marked tokens are words; raises ValueError where a tokenizer cannot."""
        ids: list[int] = encode_marked_chat(self._tokenizer, text)
        return ids

    def unmark(self, text: str) -> str:
        """Return a rendered chat without the marks."""
        return text.translate(self._unmark)
