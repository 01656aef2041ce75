"""Finds out in seconds whether a registry answers, before images are built for minutes."""

import re
import ssl
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from images.build_tools import BuildFailed

_PREFIX = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9a-f:]+\])(?P<port>:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)
_TIMEOUT_S = 10.0


def registry_of(prefix: str) -> str | None:
    """Return the registry that a prefix of image names begins with, None for Docker's; raises BuildFailed for no name.

    A first part without dot and port is a folder of Docker's registry, as every image tool reads it.
    """
    match = _PREFIX.fullmatch(prefix)
    if match is None:
        raise BuildFailed(
            f"{prefix!r} is no registry and folder. Say it without https://, without a tag and a slash at its end, and "
            "its folders in small letters, such as registry.example.com/conch."
        )
    host, port = match["host"], match["port"] or ""
    return f"{host}{port}" if port or "." in host or "[" in host or host == "localhost" else None


def check_answers(registry: str) -> None:
    """Raise BuildFailed unless a registry's HTTP server answers, whatever it says: who may push is seen later."""
    why = ""
    for scheme in ("https", "http"):
        try:
            urlopen(f"{scheme}://{registry}/v2/", timeout=_TIMEOUT_S).close()
        except HTTPError:
            return
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                return  # the tool that pushes has authorities of its own
            why = why or str(error.reason)
        except (OSError, HTTPException) as error:
            why = why or str(error)
        else:
            return
    raise BuildFailed(
        f"The registry {registry} does not answer: {why}. Nothing was built; check its name and the way to it."
    )
