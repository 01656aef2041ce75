"""How a download fails: with the reason of a condition, and a sentence that says what to do."""

from conch_contracts.conditions import Reason


class DownloadError(Exception):
    """A download that did not get to its end."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def line(self) -> str:
        """Return what the process says last; `parse_last_line` reads it."""
        return f"{self.reason}: {self}"

    @property
    def may_pass(self) -> bool:
        """Return whether trying again soon may help."""
        return self.reason in (Reason.SOURCE_UNREACHABLE, Reason.CHECKSUM_MISMATCH)


_REASONS = frozenset(
    {
        Reason.DOWNLOADING,
        Reason.SOURCE_NOT_FOUND,
        Reason.SOURCE_ACCESS_DENIED,
        Reason.SOURCE_UNREACHABLE,
        Reason.INSUFFICIENT_STORAGE,
        Reason.CHECKSUM_MISMATCH,
        Reason.DOWNLOAD_FAILED,
    }
)


def parse_last_line(line: str) -> tuple[Reason, str] | None:
    """Return reason and message of a line that a download ended with; None when it is no such line."""
    word, colon, message = line.partition(": ")
    return (Reason(word), message) if colon and word in _REASONS else None


def unreachable(server: str, how: str) -> DownloadError:
    """Return the error of a server that gives no answer; one that the cluster's rules refuse is told in these words."""
    message = f"{server} does not answer: {how}. Check that it runs, and that the cluster lets models use its address."
    return DownloadError(Reason.SOURCE_UNREACHABLE, message)
