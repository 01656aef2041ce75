"""Messages: whether they make a conversation, and how chat templates expect them; pure.

What a type cannot say is checked here: a tool's result must be the answer to a call, and only a message that calls
tools or refuses may have no content. The older `function_call` and the role `function` become calls and results of
tools.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence

from conch_contracts.openai.chat import ChatMessage, ImagePart
from conch_contracts.openai.tools import ToolCall
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.errors.bad_request import invalid, missing
from conch_gateway.errors.complexity import check_complexity
from conch_gateway.errors.nesting import MAX_DEPTH, check_depth, too_deep
from conch_gateway.requests import content_parts

_MISTRAL_ID_CHARS = 9


def check(messages: Sequence[ChatMessage]) -> None:
    """Raise InvalidRequest for the first message that does not fit in its place."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if message.role != "assistant" and (message.tool_calls or message.function_call):
            field = "tool_calls" if message.tool_calls else "function_call"
            raise invalid(f"{where}.{field}", f"only the assistant calls tools, found the role '{message.role}'")
        if message.role != "assistant" and message.refusal:
            raise invalid(f"{where}.refusal", f"only the assistant refuses, found the role '{message.role}'")
        if message.role != "assistant" and isinstance(message.content, list):
            for at, part in enumerate(message.content):
                if part.type == "refusal":
                    raise invalid(f"{where}.content.{at}.type", "only the assistant refuses")
        content_parts.check_place(message, where)
        if message.content is None and not (message.refusal or message.tool_calls or message.function_call):
            if "content" not in message.model_fields_set:
                raise missing(f"{where}.content")
            raise invalid(f"{where}.content", "expected a text or a list of parts, found null")
        if message.role == "tool" and message.tool_call_id is None:
            raise missing(f"{where}.tool_call_id")
        if message.role == "tool" and message.tool_call_id not in known:
            raise invalid(f"{where}.tool_call_id", "no message before this one has a call with this id")
        if message.role == "function" and message.name is None:
            raise missing(f"{where}.name")
        for at, call in enumerate(message.tool_calls or ()):
            check_arguments(call.function.arguments, f"{where}.tool_calls.{at}.function.arguments")
            known.add(call.id)
        if message.function_call:
            check_arguments(message.function_call.arguments, f"{where}.function_call.arguments")


def check_arguments(text: str, param: str) -> None:
    """Raise InvalidRequest for arguments with more levels, or more of everything, than any request may have."""
    check_complexity(text.encode(errors="replace"), param)
    if text.count("{") + text.count("[") <= MAX_DEPTH:  # as nearly all are: they need not be read for this
        return
    try:
        check_depth(json.loads(text), param)
    except RecursionError:
        raise too_deep(param) from None
    except ValueError:
        return  # no JSON: templates get it as the text that it is


def as_templates_expect(
    messages: Sequence[ChatMessage], calls: ToolCallParser = ToolCallParser.NONE
) -> tuple[dict[str, object], ...]:
    """Return the messages with their parts joined, arguments as objects, and absent fields left out."""
    return tuple(_flattened(messages, short_ids=calls is ToolCallParser.MISTRAL))


def part_lengths(messages: Sequence[ChatMessage]) -> dict[int, tuple[int | None, ...]]:
    """Return how long the parts are of each message that has several, for templates that take them one by one.

    None stands for a picture; one alone is told too.
    """
    return {
        index: tuple(None if text is None else len(text) for text in parts)
        for index, message in enumerate(messages)
        if (message.refusal or isinstance(message.content, list))
        and (len(parts := _parts(message)) > 1 or parts == [None])
    }


def plain_text(message: ChatMessage) -> str:
    """Return a message's text, its parts joined, and what it refused behind them."""
    return "\n".join(text for text in _parts(message) if text is not None)


def _parts(message: ChatMessage) -> list[str | None]:
    """Return the texts of a message, and None for each picture."""
    content = message.content or ""
    parts: list[str | None]
    if isinstance(content, str):
        parts = [content]
    else:
        parts = [None if isinstance(part, ImagePart) else part.text for part in content]
    if not message.refusal:
        return parts
    return [message.refusal] if parts == [""] else [*parts, message.refusal]


def _flattened(messages: Sequence[ChatMessage], *, short_ids: bool) -> Iterator[dict[str, object]]:
    names: dict[str, str] = {}
    for message in messages:
        calls = message.tool_calls or _old_call(message)
        names.update((call.id, call.function.name) for call in calls)
        flat: dict[str, object] = {
            "role": "tool" if message.role == "function" else message.role,
            "content": None if message.content is None and not message.refusal else plain_text(message),
        }
        if message.role in ("tool", "function"):
            call_id = message.tool_call_id or _old_id(message.name or "")
            flat["tool_call_id"] = _short(call_id) if short_ids else call_id
            flat["name"] = message.name or names.get(call_id, "")
        elif message.name is not None:
            flat["name"] = message.name
        thought = message.reasoning if message.reasoning_content is None else message.reasoning_content
        if thought is not None:
            flat["reasoning_content"] = thought
        if calls:
            flat["tool_calls"] = [_call(call, short_ids=short_ids) for call in calls]
        yield flat


def _call(call: ToolCall, *, short_ids: bool) -> dict[str, object]:
    return {
        "id": _short(call.id) if short_ids else call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
    }


def _arguments(text: str) -> object:
    """Return arguments as the object that templates turn into text again; what is none stays as it is."""
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite) if text.strip() else {}
        json.dumps(found, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _finite(number: str) -> float:
    """Return a number that can be written as JSON again; raise ValueError for one beyond every float."""
    found = float(number)
    if not math.isfinite(found):
        raise ValueError(f"{number} is no finite number.")
    return found


def _old_call(message: ChatMessage) -> list[ToolCall]:
    call = message.function_call
    return [] if call is None else [ToolCall(id=_old_id(call.name), function=call)]


def _old_id(name: str) -> str:
    return f"call_{name}"


def _short(call_id: str) -> str:
    """Return an id of the only form that Mistral's templates accept: nine letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "", call_id)[-_MISTRAL_ID_CHARS:].rjust(_MISTRAL_ID_CHARS, "0")
