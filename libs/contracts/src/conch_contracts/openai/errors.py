"""The one shape of every error."""

from conch_contracts.openai.api_model import ApiModel


class ErrorDetail(ApiModel):
    """What went wrong; all four keys are always there."""

    message: str
    type: str
    param: str | None
    """Dotted path of the parameter at fault."""
    code: str | None


class ErrorResponse(ApiModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail
