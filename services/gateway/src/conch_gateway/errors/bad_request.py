"""The kinds of 400, each made from the parameter that it names; pure."""

from conch_kit.errors import InvalidRequest

MAX_PARAM_CHARS = 100


def missing(param: str) -> InvalidRequest:
    """Return the error for a parameter that must be there."""
    return InvalidRequest(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def invalid(param: str, why: str) -> InvalidRequest:
    """Return the error for a value that cannot be."""
    return InvalidRequest(f"Invalid value for '{param}': {why}.", param=param, code="invalid_value")


def conflicting(param: str, why: str) -> InvalidRequest:
    """Return the error for a parameter that does not go together with the others."""
    return InvalidRequest(f"'{param}' {why}.", param=param, code="invalid_value")


def unsupported(param: str, instead: str = "") -> InvalidRequest:
    """Return the error for a parameter that this endpoint does not have; `instead` says what does its work."""
    why = f": {instead}" if instead else ""
    return InvalidRequest(f"The parameter '{param}' is not supported{why}.", param=param, code="unsupported_parameter")


def unsupported_by_model(param: str, why: str) -> InvalidRequest:
    """Return the error for a parameter that this model, or its backend, cannot obey."""
    return InvalidRequest(
        f"The parameter '{param}' cannot be used here: {why}.", param=param, code="unsupported_parameter"
    )
