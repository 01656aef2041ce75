"""Asks the tokenizer service whether a grammar can be obeyed, before its request is placed anywhere.

The service compiles it in a process that may die of it; the gateway itself never looks into a grammar.
"""

from conch_contracts.messages.tokenization import CheckGrammarRequest
from conch_contracts.names import CHECK_GRAMMAR_PATH
from conch_contracts.records import Dialect, Route
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.errors.bad_request import invalid
from conch_gateway.generation.endpoints import encode
from conch_gateway.placement.tokenizer_client import TokenizerClient
from conch_gateway.upstream.port import Header
from conch_kit.errors import InvalidRequest


async def check_grammar(
    tokenizers: TokenizerClient, constraint: Constraint, route: Route, headers: tuple[Header, ...]
) -> None:
    """Raise InvalidRequest, naming the parameter, for a grammar that cannot be obeyed."""
    request = CheckGrammarRequest(
        digest=route.tokenizer_digest,
        grammar=constraint.grammar,
        foreign=route.dialect is not Dialect.TOKENS,
    )
    try:
        await tokenizers.post(CHECK_GRAMMAR_PATH, encode(request), headers)
    except InvalidRequest as exc:
        raise invalid(constraint.param, exc.message) from exc
