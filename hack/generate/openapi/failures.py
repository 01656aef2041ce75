"""The errors of the API, in an OpenAPI document's words."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch_contracts.anthropic.answer import ErrorAnswer
from conch_contracts.openai.errors import ErrorResponse

Responses = dict[int | str, dict[str, Any]]

STATUSES: Mapping[int, str] = {
    400: "The request is wrong, or asks for what this model cannot do; `param` is the dotted path of the parameter.",
    401: "The API key is missing or unknown.",
    404: "No such model, response or path.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not JSON in UTF-8, is no form where one is taken, or is compressed.",
    422: "The file of a form came as a text, or a picture that is named by URL cannot be had or is too large.",
    429: "The model's queue is full, or too much waits for it to start; `Retry-After` says when to try again.",
    500: "A fault in the gateway; the message says nothing of the inside.",
    502: "The engine, a worker or the server of a picture failed.",
    503: "No engine or worker is ready or free in time, an engine still starts, or the server ends; `Retry-After` says "
    "when to try again.",
    504: "The answer, or a picture that is named by URL, was not there in time.",
}
INFERENCE = tuple(STATUSES)
OF_TEXT = tuple(status for status in STATUSES if status != 422)
"""Where neither a file nor a picture is sent."""


def errors(statuses: Sequence[int] = INFERENCE) -> Responses:
    """Return these errors as a path's description has them."""
    return {status: {"model": ErrorResponse, "description": STATUSES[status]} for status in statuses}


def anthropic_errors() -> Responses:
    """Return the errors of the Messages API, which has a form and a status of its own."""
    said = {529 if status == 503 else status: STATUSES[status] for status in INFERENCE}
    said[400] = "The request is wrong, or asks for what this model cannot do; `message` names the parameter."
    return {status: {"model": ErrorAnswer, "description": description} for status, description in said.items()}
