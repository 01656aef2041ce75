"""Asks the tokenizer service whether a grammar can be obeyed, before its request is placed anywhere.

The service compiles it in a process that may die of it; the gateway itself never looks into a grammar.
"""

from collections.abc import Sequence

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import CheckGrammarRequest
from conch_contracts.names import CHECK_GRAMMAR_PATH
from conch_contracts.openai.tools import Tool
from conch_contracts.records import Dialect, Route
from conch_gateway.constraints.closed_schemas import closed
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.constraints.tool_call_grammar import NO_PARAMETERS
from conch_gateway.errors.bad_request import invalid
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.upstream.port import Header
from conch_kit.errors import InvalidRequest
from conch_kit.json_bytes import json_bytes

_OF_TOOLS = ("tools", "tool_choice")


async def check_grammar(
    tokenizers: TokenizerClient,
    constraint: Constraint,
    route: Route,
    headers: tuple[Header, ...],
    wait: TimeLeft,
    tools: Sequence[Tool] = (),
) -> None:
    """Raise InvalidRequest, naming the parameter, for a grammar that cannot be obeyed.

    Of several `tools` it names the one whose arguments cannot be kept to their schema. `wait` is how long the request
    may still wait for tokenizers.
    """

    async def check(grammar: Grammar) -> None:
        foreign = route.dialect is not Dialect.TOKENS
        request = CheckGrammarRequest(digest=route.tokenizer_digest, grammar=grammar, foreign=foreign)
        await tokenizers.post(CHECK_GRAMMAR_PATH, to_json(request), headers, route, _nothing, wait)

    try:
        await check(constraint.grammar)
    except InvalidRequest as exc:
        for index, tool in enumerate(tools if constraint.param in _OF_TOOLS else ()):
            schema = json_bytes(closed(tool.function.parameters or NO_PARAMETERS)).decode()
            try:
                await check(Grammar(kind=GrammarKind.JSON_SCHEMA, definition=schema))
            except InvalidRequest as own:
                raise invalid(f"tools.{index}.function.parameters", own.message) from own
        raise invalid(constraint.param, exc.message) from exc


def _nothing(_: bytes) -> None:
    """Take any answer that is not an error, whatever it is: its status says all there is to say."""
