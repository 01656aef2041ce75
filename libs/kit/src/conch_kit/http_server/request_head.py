"""The head of one request, as the parser brings it: what is wrong with it, and what an ASGI application gets of it."""

from urllib.parse import unquote

from conch_kit.http.asgi import Scope
from conch_kit.http.caller_connection import CONNECTION, CallerConnection
from conch_kit.http_server.limits import MAX_HEADERS, ConnectionLimits

Fault = tuple[int, str]
"""The status and the words of a refusal."""

_NOTED = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))
_HOST = b"-._~!$&'()*+,;=:[]%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The bytes of a host and its port (RFC 3986, section 3.2)."""
_ASGI = {"version": "3.0", "spec_version": "2.3"}


class RequestHead:
    """Target and headers, as far as they have come; or trailers, which nobody sees and which have the same bounds."""

    __slots__ = (
        "_coded",
        "_host_is_odd",
        "_hosts",
        "_name",
        "_size",
        "body_bytes",
        "expects_continue",
        "headers",
        "in_chunks",
        "read_bytes",
        "target",
    )

    def __init__(self, name: str = "a request head", target: bytes = b"") -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.read_bytes = 0
        """What came that may be a part of it, the parser having brought nothing else since."""
        self._name = name
        self.body_bytes = 0
        """How long the body is that comes behind it, if it says so."""
        self.expects_continue = False
        """Whether the caller waits for a word before it sends the body."""
        self.in_chunks = False
        """Whether the body has no length but that of its chunks."""
        self.target = target
        """Path and query, as they came."""
        self._coded = False
        """Whether the body has another form than chunks of what was meant."""
        self._hosts = 0
        self._host_is_odd = False
        """Whether a Host has a byte that none may have."""
        self._size = 0

    def add_target(self, piece: bytes) -> None:
        """Take a piece of the target."""
        self.target += piece
        self._size += len(piece)

    def add_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name, value = name.lower(), value.rstrip(b" \t")  # the parser leaves spaces at the end
        if name in _NOTED:
            self._note(name, value)
        if len(self.headers) <= MAX_HEADERS:
            self.headers.append((name, value))
        self._size += len(name) + len(value) + 4

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
            self._host_is_odd = self._host_is_odd or bool(value.translate(None, _HOST))
        elif name == b"content-length":
            self.body_bytes = int(value)
        elif name == b"transfer-encoding":
            self.in_chunks = True
            self._coded = self._coded or value.lower() != b"chunked"
        else:
            self.expects_continue = value.lower() == b"100-continue"

    def excess(self, limits: ConnectionLimits) -> Fault | None:
        """Return why there is too much of it."""
        if max(self.read_bytes, self._size) > limits.head_bytes:
            return 431, f"Expected {self._name} of at most {limits.head_bytes} bytes."
        if len(self.headers) > MAX_HEADERS:
            return 431, f"Expected {self._name} of at most {MAX_HEADERS} fields."
        return None

    def fault(self, version: str) -> Fault | None:
        """Return why a whole head is refused: another server might read it as something else."""
        if version not in ("1.0", "1.1"):
            return 400, "Expected HTTP/1.1."
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            return 400, "Expected exactly one Host header."
        if self._host_is_odd:
            return 400, "Expected a host, and a port at most, in the Host header."
        if not self.target.startswith(b"/") and self.target != b"*":
            return 400, "Expected a path as the request target."
        if self._coded:
            return 501, "Expected no transfer coding but chunked."
        return None

    def without_upgrade(self, method: bytes, version: str) -> bytes:
        """Return the head as it would have been sent without an offer of another protocol."""
        lines = [b"%b %b HTTP/%b" % (method, self.target, version.encode())]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def scope(self, method: bytes, version: str, connection: CallerConnection) -> Scope:
        """Return what ASGI calls the request's scope."""
        path, _, query = self.target.partition(b"?")
        text = path.decode("latin-1")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": "http",
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "headers": self.headers,
            "extensions": {CONNECTION: {"port": connection}},
        }
