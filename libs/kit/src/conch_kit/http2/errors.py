"""What can go wrong with a connection and its streams."""

from conch_kit.http2.frames import ErrorCode


class StreamFailed(Exception):
    """A stream ended before its end. `code` is HTTP/2's, or None when the connection was lost."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class ProtocolViolation(Exception):
    """The peer broke the protocol, so the connection cannot go on."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code
