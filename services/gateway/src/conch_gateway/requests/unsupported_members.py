"""Fields of messages and of tools that this API does not have: what asks for something is refused by name; pure.

The types of `conch_contracts.openai` leave out what they do not know, because clients send messages back with whatever
an earlier answer had. These are other: a client that sends one expects another answer than it would get.
"""

from collections.abc import Collection, Mapping

from conch_contracts.capabilities import is_harmless
from conch_gateway.errors.bad_request import unsupported
from conch_gateway.requests import content_parts
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

_GOES_ON = "use 'continue_final_message': true with 'add_generation_prompt': false, beside the messages"
_IN_PARTS = "show pictures in 'content', as parts of the type 'image_url'"
_TEXTS_AND_PICTURES = "models here take texts and pictures"
_ALL_SHOWN = "the model is shown all tools at once"

OF_MESSAGES: Mapping[str, ParameterRefusal] = {
    "audio": ParameterRefusal(_TEXTS_AND_PICTURES, ({},)),
    "images": ParameterRefusal(_IN_PARTS, ([],)),
    "partial": ParameterRefusal(_GOES_ON, (False,)),
    "prefix": ParameterRefusal(_GOES_ON, (False,)),
    "reasoning_details": ParameterRefusal("use 'reasoning_content'", ([],)),
    "thinking": ParameterRefusal("use 'reasoning_content'", ("",)),
    "videos": ParameterRefusal(_TEXTS_AND_PICTURES, ([],)),
}
"""OpenAI's, OpenRouter's, Ollama's, and those by which DeepSeek, Mistral, Qwen and Kimi let an answer go on."""

OF_TOOLS: Mapping[str, ParameterRefusal] = {
    "allowed_callers": ParameterRefusal("the model alone calls tools", ([], ["direct"])),
    "defer_loading": ParameterRefusal(_ALL_SHOWN, (False,)),
    "output_schema": ParameterRefusal("say in 'description' what comes back", ({},)),
}
"""Of a tool, or of its `function`."""

_LISTS: Mapping[str, Mapping[str, ParameterRefusal]] = {
    "messages": OF_MESSAGES,
    "input": OF_MESSAGES,
    "tools": OF_TOOLS,
}
_SAID_TWICE = {"reasoning_details": ("reasoning_content", "reasoning"), "thinking": ("reasoning_content", "reasoning")}
"""What passes beside one of these: it says the same."""


def refuse(document: Mapping[str, object], fields: Collection[str]) -> None:
    """Raise InvalidRequest for the first such field within those of these `fields` that are lists of objects.

    The same for parts of messages and texts that no model here can take.
    """
    content_parts.refuse({name: document[name] for name in document if name in fields})
    for name, refusals in _LISTS.items():
        entries = document.get(name) if name in fields else None
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):  # a million token ids are not
            refuse_within(entries, name, refusals)


def refuse_within(entries: list[object], where: str, refusals: Mapping[str, ParameterRefusal] = OF_MESSAGES) -> None:
    """Raise InvalidRequest for the first such field of these entries, which are `where` in the request."""
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue
        if not refusals.keys().isdisjoint(entry):
            _refuse(entry, f"{where}.{index}", refusals)
        function = entry.get("function")
        if isinstance(function, dict) and not refusals.keys().isdisjoint(function):
            _refuse(function, f"{where}.{index}.function", refusals)


def _refuse(entry: Mapping[str, object], where: str, refusals: Mapping[str, ParameterRefusal]) -> None:
    for name in sorted(refusals.keys() & entry.keys()):
        said = any(isinstance(entry.get(other), str) for other in _SAID_TWICE.get(name, ()))
        if not said and not is_harmless(entry[name], refusals[name].harmless):
            raise unsupported(f"{where}.{name}", refusals[name].instead)
