"""What a service tells a child beside requests: which bundle to load, and which connection is a lane from now on."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from conch_contracts.names import Digest


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """The payload of LOAD: a bundle and the folder that holds its files."""

    digest: Digest
    folder: Path

    def pack(self) -> bytes:
        """Return the payload."""
        return f"{self.digest} {self.folder}".encode()

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Return what a payload says."""
        digest, _, folder = payload.decode().partition(" ")
        return cls(Digest(digest), Path(folder))


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """What goes with a connection that becomes a lane."""

    number: int
    of: int
    """How many lanes a gateway should have."""

    def send(self, hand_over: socket.socket, descriptor: int) -> None:
        """Send it with the connection's descriptor, which stays the caller's to close; raises OSError."""
        socket.send_fds(hand_over, [f"{self.number} {self.of}".encode()], [descriptor])

    @classmethod
    def receive(cls, handed_over: socket.socket) -> tuple[Self, socket.socket]:
        """Return the next one with its connection; raises OSError when the service is gone."""
        message, descriptors, _, _ = socket.recv_fds(handed_over, 64, 1)
        if not descriptors:
            raise OSError("the service has closed the socket")
        number, of = message.decode().split()
        return cls(int(number), int(of)), socket.socket(fileno=descriptors[0])
