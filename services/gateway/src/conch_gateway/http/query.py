"""The query of a URL as a typed value."""

from typing import TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, ValidationError

from conch_gateway.errors.bad_request import MAX_PARAM_CHARS, invalid


class Query(BaseModel):
    """What a path takes in its query; a member that may be there several times is called `name[]`."""

    model_config = ConfigDict(frozen=True)


Q = TypeVar("Q", bound=Query)


def read_query(kind: type[Q], text: str) -> Q:
    """Return the query; raises InvalidRequest that names what is wrong. Of what stands there twice the last counts."""
    given = parse_qs(text, keep_blank_values=True)
    try:
        return kind.model_validate(
            {name: values if name.endswith("[]") else values[-1] for name, values in given.items()}
        )
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        raise invalid(".".join(map(str, first["loc"]))[:MAX_PARAM_CHARS], first["msg"]) from None
