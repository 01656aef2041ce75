"""What a call can be refused with.

CallRefused: the call ends with a status of gRPC and a sentence for whoever reads KEDA's log.
"""

import grpc


class CallRefused(Exception):
    """The call is not answered; `code` says whether asking again may help."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
