"""The docstrings below the fields of the API's types, as descriptions in the document's schemas."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from conch_contracts.openai.api_model import ApiModel


def describe_fields(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Add them to the schemas, which are by the names of the types."""
    for kind in _subclasses(ApiModel):
        properties = schemas.get(kind.__name__, {}).get("properties", {})
        for name, docstring in _docstrings(kind).items():
            field = kind.model_fields[name]
            told = properties.get(field.alias or name)
            if told is not None:
                told.setdefault("description", docstring)


def _subclasses(kind: type[ApiModel]) -> Iterator[type[ApiModel]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _docstrings(kind: type[ApiModel]) -> dict[str, str]:
    """Return the docstring of each field that has one; a type's own come before those that it inherits."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, ApiModel) and each is not ApiModel:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            found.update(_below_fields(body))
    return {name: docstring for name, docstring in found.items() if name in kind.model_fields}


def _below_fields(body: ast.stmt) -> Iterator[tuple[str, str]]:
    if not isinstance(body, ast.ClassDef):
        return
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
