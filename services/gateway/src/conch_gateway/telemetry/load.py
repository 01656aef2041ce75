"""How much a gateway has to do at this moment, for balancers that ask before they send."""

from types import TracebackType


class Load:
    """The number of requests that are being served; each is a context."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0

    def __enter__(self) -> None:
        self.requests += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.requests -= 1
