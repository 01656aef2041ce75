"""What a chat request's tools mean: which are offered, whether a call is demanded, and how calls are read; pure.

A model sees tools through its own chat template, so one whose template has no place for them cannot use any. Calls are
read in the form that the model was trained on. Where a call is demanded (`required`, or a certain tool) the engine is
made to write one: in the model's form if that is JSON between marks, else as a JSON list, which any model can write.
"""

from collections.abc import Sequence

from conch_contracts.capabilities import Feature, lack
from conch_contracts.messages.answer_parsing import Calls
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.tools import AllowedToolsChoice, NamedToolChoice, Tool
from conch_contracts.records import Route
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints.optional_tool_calls import OPTIONAL_CALL_FORMS, TAGGED_FORMS, text_with_calls
from conch_gateway.constraints.structural_tags import Format
from conch_gateway.constraints.tagged_tool_calls import is_any_text
from conch_gateway.constraints.tool_call_grammar import ENFORCED_FORMS, NO_PARAMETERS, calls_of
from conch_gateway.errors.bad_request import invalid, unsupported_by_model


def check(request: ChatCompletionRequest) -> None:
    """Raise InvalidRequest for tools that contradict each other or the choice among them."""
    names: set[str] = set()
    for index, tool in enumerate(request.tools or ()):
        if tool.function.name in names:
            param = f"tools.{index}.function.name"
            raise invalid(param, f"the name '{tool.function.name}' is there twice")
        names.add(tool.function.name)
    match request.tool_choice:
        case "auto" if request.tools is None:
            raise invalid("tool_choice", "'auto' needs 'tools'")
        case "required" if not names:
            raise invalid("tool_choice", "'required' needs 'tools'")
        case NamedToolChoice(function=chosen) if chosen.name not in names:
            raise invalid("tool_choice.function.name", f"no tool has the name '{chosen.name}'")
        case AllowedToolsChoice(allowed_tools=allowed):
            for index, one in enumerate(allowed.tools):
                if one.function.name not in names:
                    param = f"tool_choice.allowed_tools.tools.{index}.function.name"
                    raise invalid(param, f"no tool has the name '{one.function.name}'")


def check_route(request: ChatCompletionRequest, route: Route) -> None:
    """Raise InvalidRequest for tools that this model or its backend cannot use."""
    if not offered(request):
        return
    check_place(route)
    if demanded(request):
        if lack(Feature.GRAMMAR, "tool_choice", route.dialect) is not None:
            backend = f"this model's backend ({route.dialect})"
            raise unsupported_by_model("tool_choice", f"{backend} cannot be made to write a call; use 'auto'")
    elif route.chat.tool_calls is ToolCallParser.NONE:
        raise unsupported_by_model(
            "tools", "it is not known how this model writes calls; use 'tool_choice': 'required', or set toolCallParser"
        )
    elif (strict := _first_strict(request)) is not None:
        _check_strict(strict, route)


def check_place(route: Route) -> None:
    """Raise InvalidRequest where the model would not see any tools."""
    if not route.chat.takes_tools:
        raise unsupported_by_model("tools", "this model's chat template has no place for tools")


def _check_strict(index: int, route: Route) -> None:
    """Raise InvalidRequest where the arguments of a call that the model may make cannot be held to a schema."""
    if lack(Feature.GRAMMAR, "tools", route.dialect) is not None:
        why = f"this model's backend ({route.dialect}) cannot keep arguments to a schema"
    elif route.chat.tool_calls not in OPTIONAL_CALL_FORMS:
        why = f"arguments in this model's form of calls ({route.chat.tool_calls}) cannot be kept to a schema"
    else:
        return
    remedy = "leave out 'strict', or use 'tool_choice': 'required' if the backend allows it"
    raise unsupported_by_model(f"tools.{index}.function.strict", f"{why}; {remedy}")


def offered(request: ChatCompletionRequest) -> Sequence[Tool]:
    """Return the tools that the model gets to see: none when it must not call any."""
    match request.tool_choice:
        case "none":
            return ()
        case AllowedToolsChoice(allowed_tools=allowed):
            names = {tool.function.name for tool in allowed.tools}
            return [tool for tool in request.tools or () if tool.function.name in names]
        case _:
            return request.tools or ()


def demanded(request: ChatCompletionRequest) -> Sequence[Tool]:
    """Return the tools of which one must be called; none where the model is free."""
    match request.tool_choice:
        case "required":
            return request.tools or ()
        case AllowedToolsChoice(allowed_tools=allowed):
            return offered(request) if allowed.mode == "required" else ()
        case NamedToolChoice(function=chosen):
            return [tool for tool in request.tools or () if tool.function.name == chosen.name]
        case _:
            return ()


def for_template(request: ChatCompletionRequest) -> tuple[dict[str, object], ...] | None:
    """Return the tools as chat templates expect them: `strict` is no business of the model's."""
    return shown(offered(request))


def shown(tools: Sequence[Tool]) -> tuple[dict[str, object], ...] | None:
    """Return tools as chat templates expect them; None when there are none."""
    return tuple(_shown(tool) for tool in tools) if tools else None


def calls(request: ChatCompletionRequest, route: Route) -> Calls | None:
    """Return how calls in the answer are read; None when none can come."""
    tools = offered(request)
    if not tools:
        return None
    parser = ENFORCED_FORMS[route.chat.tool_calls] if demanded(request) else route.chat.tool_calls
    held = _first_strict(request) is not None
    typed = {tool.function.name: _types(tool, held=held) for tool in tools} if parser in TAGGED_FORMS else {}
    return Calls(
        parser=parser,
        names=tuple(tool.function.name for tool in tools),
        several=request.parallel_tool_calls is not False,
        demanded=bool(demanded(request)),
        typed_parameters=typed,
    )


def form(request: ChatCompletionRequest, route: Route) -> Format | None:
    """Return the form of the calls that the engine may be held to; None where the model's own cannot be enforced."""
    tools, parser = demanded(request), route.chat.tool_calls
    if not tools:
        tools = offered(request)
        if not tools or ENFORCED_FORMS[parser] is not parser:
            return None
    only_one = request.parallel_tool_calls is False or isinstance(request.tool_choice, NamedToolChoice)
    return calls_of(tools, parser, only_one=only_one)


def optional_calls_form(request: ChatCompletionRequest, route: Route) -> Format | None:
    """Return the form of an answer that may call strict tools or not; None where no tool is strict.

    Raises InvalidRequest.
    """
    if _first_strict(request) is None:
        return None
    return text_with_calls(offered(request), route.chat.tool_calls, only_one=request.parallel_tool_calls is False)


def _first_strict(request: ChatCompletionRequest) -> int | None:
    """Return the first tool whose calls, which the model is free to make, must obey its schema."""
    seen = offered(request) if not demanded(request) else ()
    strict = [tool for tool in seen if tool.function.strict]
    return next((index for index, tool in enumerate(request.tools or ()) if tool in strict), None)


def _shown(tool: Tool) -> dict[str, object]:
    function = tool.function
    shown: dict[str, object] = {"name": function.name}
    if function.description is not None:
        shown["description"] = function.description
    return {"type": tool.type, "function": {**shown, "parameters": function.parameters or NO_PARAMETERS}}


def _types(tool: Tool, *, held: bool) -> dict[str, str]:
    """Return the parameters' types, as far as the schema's first level says so.

    Values that are `held` to it are JSON, but for those that may be any text.
    """
    properties = (tool.function.parameters or {}).get("properties")
    found = properties if isinstance(properties, dict) else {}
    return {name: _held_type(schema) if held else _type(schema) for name, schema in found.items()}


def _held_type(schema: object) -> str:
    return "string" if is_any_text(schema) else "any"


def _type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else "any"
