"""What a chat request says about the model's thinking, and what becomes of it; pure.

Whether an answer begins inside the thinking is seen in the rendered prompt: templates of models that always think open
it there, and templates that switch it off close it there.
"""

from collections.abc import Sequence

from conch_contracts.messages.answer_parsing import Thinking
from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import Profile, Route
from conch_contracts.thinking_marks import THINKING_MARKS, ReasoningParser, ThinkingMarks
from conch_gateway.constraints import tool_use
from conch_gateway.errors.bad_request import conflicting, unsupported_by_model
from conch_gateway.requests.thinking_words import SWITCHES, noted_switch
from conch_kit.errors import InvalidRequest


def template_variables(request: ChatCompletionRequest, profile: Profile) -> dict[str, object]:
    """Return what the template is told about thinking.

    A call that is demanded is written at once: its grammar leaves no room for thinking before it.
    """
    effort = request.reasoning_effort
    noted = noted_switch(request, profile)
    variables: dict[str, object] = {}
    if effort == "none" or tool_use.demanded(request):
        variables.update(dict.fromkeys(SWITCHES, False))
    elif request.enable_thinking is not None:
        variables.update(dict.fromkeys(SWITCHES, request.enable_thinking))
    elif effort is not None and effort != "minimal":
        variables.update(dict.fromkeys(SWITCHES, True))
    elif effort is None and noted is not None:
        variables.update(dict.fromkeys(SWITCHES, noted))
    if effort is not None:
        variables["reasoning_effort"] = effort
    return variables


def check_route(request: ChatCompletionRequest, route: Route) -> None:
    """Raise InvalidRequest for a budget that cannot be kept."""
    if budget(request) is None:
        return
    if route.chat.reasoning is ReasoningParser.NONE:
        raise _no_budget(request, "it is not known how this model marks its thinking")


def budget(request: ChatCompletionRequest) -> int | None:
    """Return how many tokens the model may think; None: as many as it likes."""
    tokens = request.thinking_token_budget if request.reasoning_max_tokens is None else request.reasoning_max_tokens
    return None if tokens == -1 else tokens


def marks(request: ChatCompletionRequest, route: Route) -> tuple[str, ...]:
    """Return the marks whose ids the engine must know."""
    if budget(request) is None:
        return ()
    return THINKING_MARKS[route.chat.reasoning][:2]


def begun(route: Route, prompt: str) -> Thinking | None:
    """Return where the answer to a prompt begins; None when it has no thinking."""
    parser = route.chat.reasoning
    if parser is ReasoningParser.NONE:
        return None
    known = THINKING_MARKS[parser]
    end = prompt[-_tail(known) :].rstrip()
    if end.endswith(known.end):
        return None
    return Thinking(parser=parser, opened=end.endswith(known.start))


def thinking(request: ChatCompletionRequest, route: Route, prepared: PrepareResponse) -> Thinking | None:
    """Return what is to be done with the answer's thinking; None when there can be none."""
    found = begun(route, prepared.prompts[0].text)
    return None if found is None else changed(found, show=request.include_reasoning is not False)


def thinking_in_texts(route: Route, prepared: PrepareResponse) -> Thinking | None:
    """Return the same for text completions, whose thinking only FastDeploy's clients look for beside the text.

    Raises InvalidRequest where one of several prompts ends inside the thinking and another does not.
    """
    if route.profile is not Profile.FASTDEPLOY:
        return None
    first, *others = (begun(route, prompt.text) for prompt in prepared.prompts)
    if any(other != first for other in others):
        raise conflicting(
            "prompt", "must not have texts that end inside the model's thinking beside others that do not"
        )
    return first


def one_token_each(ids: Sequence[Sequence[int]], request: ChatCompletionRequest) -> tuple[int, int]:
    """Return the ids of the two marks; raises InvalidRequest where they are not one token each."""
    match [list(mark) for mark in ids]:
        case [[start], [end]]:
            return start, end
        case _:
            raise _no_budget(request, "this model's marks of thinking are not one token each")


def _tail(known: ThinkingMarks) -> int:
    """Return how much of the prompt's end can matter: a mark and some white space."""
    return max(len(known.start), len(known.end)) + 16


def _no_budget(request: ChatCompletionRequest, why: str) -> InvalidRequest:
    param = "thinking_token_budget" if request.reasoning_max_tokens is None else "reasoning_max_tokens"
    return unsupported_by_model(param, why)
