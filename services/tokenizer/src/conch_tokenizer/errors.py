"""What can go wrong between the service and its children; the HTTP side is `conch_kit.errors`.

    ChildError
    ├── ChildLost          the child ended before it answered
    ├── ChildHung          the child did not answer in time and was killed
    └── ChildFailed        the child met a fault of ours and says so
    BundleMissing          a child needs a bundle before it can serve a request
    BundleUnreadable       a bundle's files are no tokenizer

Clients see none of them: `http.child_failures` turns each into one answer.
"""

from enum import Enum

from conch_contracts.names import Digest

TEMPLATE_ERROR = "template_error"
"""The code of a 400 that a chat template caused, whether it raised or did not end."""


class ChildError(Exception):
    """A child did not answer a request."""


class ChildLost(ChildError):
    """The child ended before it answered."""

    def __init__(self, message: str, picture: int | None = None) -> None:
        super().__init__(message)
        self.picture = picture
        """The request's picture that it was reading, if it was."""


class WorkStage(Enum):
    """How far a child had come with a request."""

    UNREAD = "unread"
    """It had not even read it, so the request is not to blame."""
    BEGUN = "begun"
    """It was at the template, where there is one."""
    ENCODING = "encoding"
    """The template had done its part."""
    STARVED = "starved"
    """The same, but it hardly got a processor, so the request is not to blame."""


class ChildHung(ChildError):
    """The child did not answer in time and was killed."""

    def __init__(self, limit_s: float, stage: WorkStage, picture: int | None = None) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.limit_s = limit_s
        self.stage = stage
        self.picture = picture
        """The request's picture that it was reading, if it was."""


class ChildFailed(ChildError):
    """The child met a fault of ours and says so."""


class BundleMissing(Exception):
    """A child needs this bundle before it can serve the request."""

    def __init__(self, digest: Digest) -> None:
        super().__init__(f"bundle {digest} is not loaded")
        self.digest = digest


class BundleUnreadable(Exception):
    """A bundle's files are no tokenizer that transformers can load."""
