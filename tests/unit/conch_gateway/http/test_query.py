"""The query of a URL as a typed value."""

from typing import Literal

import pytest
from pydantic import Field

from conch_gateway.http.query import Query, read_query
from conch_kit.errors import InvalidRequest


class Wanted(Query):
    limit: int = Field(20, ge=1)
    whole: bool = False
    order: Literal["asc", "desc"] = "desc"
    include: list[Literal["a", "b"]] | None = Field(None, alias="include[]")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", Wanted()),
        ("limit=5&whole=true&order=asc&other=1", Wanted(limit=5, whole=True, order="asc")),
        ("limit=5&limit=6", Wanted(limit=6)),
        ("include%5B%5D=a&include[]=b", Wanted(**{"include[]": ["a", "b"]})),
    ],
)
def test_what_is_there_is_read_and_the_rest_is_the_default(text, found):
    assert read_query(Wanted, text) == found


@pytest.mark.parametrize(
    ("text", "param"),
    [("limit=0", "limit"), ("limit=", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("whole=2", "whole"),
     ("include[]=c", "include[].0")],
)  # fmt: skip
def test_what_is_wrong_is_named(text, param):
    with pytest.raises(InvalidRequest) as caught:
        read_query(Wanted, text)
    assert caught.value.param == param
