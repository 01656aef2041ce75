"""The words in which a client reads that its picture could not be fetched.

A host that the model does not allow, one that stands for no public address or for nothing, and a redirect to such a one
have the same words: whoever asks learns nothing about names and addresses inside.
"""

from conch_kit.errors import (
    InvalidRequest,
    ServiceError,
    Unavailable,
    UnprocessableContent,
    UpstreamError,
    UpstreamTimeout,
)

_CODE = "invalid_value"


def bad_url(param: str, why: str) -> ServiceError:
    """Return the error of a URL that could never be fetched, as its text alone shows."""
    return _invalid(param, f"the URL cannot be used: {why}")


def not_to_be_fetched(param: str) -> ServiceError:
    """Return the error of a host, an address or a redirect that is refused."""
    return _invalid(
        param,
        "no picture may be fetched from this URL. Its host, and each host that it redirects to, must be on the public "
        "internet and among the domains that the model allows",
    )


def no_picture(param: str) -> ServiceError:
    """Return the error of a file that is no picture."""
    return _invalid(param, "what this URL leads to is not a PNG, JPEG, WEBP or GIF file")


def too_large(param: str, most: int) -> ServiceError:
    """Return the error of a file that is longer than the model takes."""
    return UnprocessableContent(f"The picture at '{param}' is larger than the limit of {most} bytes.", param=param)


def refused_by_server(param: str, status: int) -> ServiceError:
    """Return the error of a server that does not give the file."""
    return UnprocessableContent(
        f"The picture at '{param}' cannot be had: its server answered with status {status}.", param=param
    )


def packed(param: str) -> ServiceError:
    """Return the error of a file that was sent compressed although nobody asked for that."""
    return UnprocessableContent(
        f"The picture at '{param}' cannot be read: its server sent it with a Content-Encoding.", param=param
    )


def server_failed(param: str) -> ServiceError:
    """Return the error of a server that is broken or cannot be reached."""
    return UpstreamError(f"The server of the picture at '{param}' failed.", param=param)


def too_slow(param: str) -> ServiceError:
    """Return the error of a server that takes too long."""
    return UpstreamTimeout(f"The picture at '{param}' did not come in time.", param=param)


def too_many() -> ServiceError:
    """Return the error of a request for which there is no room."""
    return Unavailable("Too many pictures are being fetched at once.", retryable=True)


def _invalid(param: str, why: str) -> ServiceError:
    return InvalidRequest(f"Invalid value for '{param}': {why}.", param=param, code=_CODE)
