"""Time under a test's control."""


class FakeClock:
    """A clock that moves only when it is told to; call it for the time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
