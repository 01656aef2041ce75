"""URLs that lead, or pretend to lead, where nobody may connect; each says what its names stand for."""

from dataclasses import dataclass, field

PUBLIC = "127.0.0.77"
"""Stands for a public address: a test serves there, and has its rules take it for one."""
GOOD = "good.example"
"""Stands for `PUBLIC`."""


@dataclass(frozen=True, slots=True)
class HostileUrl:
    """One URL that must be refused with a 400."""

    url: str
    says: str
    """A part of the refusal."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What names stand for; others stand for nothing."""
    redirects_to: str | None = None
    """Where the server at `GOOD` sends whoever asks; `{port}` is its port."""
    domains: tuple[str, ...] = ("*",)


_REFUSED = "no picture may be fetched from this URL"


def _text(url: str, says: str) -> HostileUrl:
    return HostileUrl(url, says)


def _address(host: str) -> HostileUrl:
    return HostileUrl(f"http://{host}/a.png", _REFUSED)


def _name(*addresses: str) -> HostileUrl:
    return HostileUrl("https://inner.example/a.png", _REFUSED, {"inner.example": addresses})


def _redirect(location: str, **names: tuple[str, ...]) -> HostileUrl:
    return HostileUrl(f"http://{GOOD}:{{port}}/a.png", _REFUSED, {GOOD: (PUBLIC,), **names}, location)


def _domain(url: str, *domains: str) -> HostileUrl:
    return HostileUrl(url, _REFUSED, dict.fromkeys(("evil.example", "a.good.example", GOOD), (PUBLIC,)), None, domains)


_UNUSUAL = "its host is an address that is not written as four decimal numbers"
_NOT_WRITTEN = "it holds a space, a control character or a backslash"
_NO_HTTP = "it does not begin with http:// or https://"
_NO_HOST = "its host or port is not valid"
_NO_NAME = "its host is not a valid name"
_NO_PORT = "its port is neither 80 nor 443"
_USER = "it holds a user name or a password"

BY_TEXT = (
    _text("file:///etc/passwd", _NO_HTTP),
    _text("gopher://127.0.0.1:6379/_FLUSHALL", _NO_HTTP),
    _text("ftp://good.example/a.png", _NO_HTTP),
    _text("data:image/png;base64,AAAA", _NO_HTTP),
    _text("//good.example/a.png", _NO_HTTP),
    _text("unix:/run/docker.sock", _NO_HTTP),
    _text("", _NO_HTTP),
    _text("http:good.example/a.png", _NO_HOST),
    _text("http:///a.png", _NO_HOST),
    _text("http://", _NO_HOST),
    _text("http://2130706433/", _UNUSUAL),
    _text("http://017700000001/", _UNUSUAL),
    _text("http://0x7f000001/", _UNUSUAL),
    _text("http://0177.0.0.1/", _UNUSUAL),
    _text("http://0x7f.0.0.1/", _UNUSUAL),
    _text("http://127.1/", _UNUSUAL),
    _text("http://127.0.1/", _UNUSUAL),
    _text("http://127.0.0.01/", _UNUSUAL),
    _text("http://127.0.0.1.2/", _UNUSUAL),
    _text("http://999.1.1.1/", _UNUSUAL),
    _text("http://0/", _UNUSUAL),
    _text("http://good.example@127.0.0.1/", _USER),
    _text("http://user:secret@good.example/", _USER),
    _text("http://good.example:80@127.0.0.1:80/", _USER),
    _text("http://good.example#@127.0.0.1:6379/", "no picture"),
    _text("http://good.example\\@127.0.0.1/", _NOT_WRITTEN),
    _text("http://good.example /a.png", _NOT_WRITTEN),
    _text("http://good.example/\r\nHost: inner.example\r\n\r\n", _NOT_WRITTEN),
    _text("http://good.example/a\tb", _NOT_WRITTEN),
    _text("http://good.example/a\x00b", _NOT_WRITTEN),
    _text("http://good.example%0d%0a/", _NO_HOST),
    _text("http://%31%32%37.0.0.1/", _NO_HOST),
    _text("http://127.0.0.1%2f@good.example/", _USER),
    _text("http://good.example:6379/", _NO_PORT),
    _text("http://good.example:22/", _NO_PORT),
    _text("http://good.example:0/", _NO_PORT),
    _text("http://good.example:65616/", _NO_PORT),
    _text("http://good.example:+80/", _NO_HOST),
    _text("http://good.example:80:80/", _NO_HOST),
    _text("http://good.example:８０/", _NO_HOST),
    _text("http://[::1/", "it is not a valid URL"),
    _text("http://[fe80::1%25eth0]/", _NO_HOST),
    _text("http://[fe80::1%eth0]/", _NO_HOST),
    _text("http://::1/", _NO_HOST),
    _text("http://good..example/", _NO_NAME),
    _text("http://good.example../", _NO_NAME),
    _text("http://.good.example/", _NO_NAME),
    _text("http://good。。example/", _NO_NAME),
    _text("http://" + "a" * 64 + ".example/", _NO_NAME),
    _text("http://" + "a." * 127 + "example/", _NO_NAME),
    _text("http://good.example/" + "a" * 8192, "it is longer than 8192 bytes"),
    _text("http://good.example／@127.0.0.1/", "it is not a valid URL"),
    _text("http://good\u202eelpmaxe.com/", _NO_NAME),
)
"""The text alone shows it; nothing is looked up."""

BY_ADDRESS = (
    _address("127.0.0.1"),
    _address("127.0.0.1."),
    _address("１２７.０.０.１"),
    _address("127。0。0。1"),
    _address("①②⑦.⓪.⓪.①"),
    _address("0.0.0.0"),
    _address("10.0.0.1"),
    _address("172.16.0.1"),
    _address("192.168.1.1"),
    _address("100.64.0.1"),
    _address("169.254.169.254"),
    _address("168.63.129.16"),
    _address("224.0.0.1"),
    _address("255.255.255.255"),
    _address("[::1]"),
    _address("[::]"),
    _address("[::127.0.0.1]"),
    _address("[::ffff:127.0.0.1]"),
    _address("[::ffff:7f00:1]"),
    _address("[::ffff:169.254.169.254]"),
    _address("[::ffff:0:127.0.0.1]"),
    _address("[64:ff9b::7f00:1]"),
    _address("[64:ff9b::a9fe:a9fe]"),
    _address("[64:ff9b:1::a9fe:a9fe]"),
    _address("[2002:7f00:1::]"),
    _address("[2001:0:a00:1::]"),
    _address("[fe80::1]"),
    _address("[fec0::1]"),
    _address("[fd00:ec2::254]"),
    _address("[fc00::1]"),
    _address("[ff02::1]"),
)
"""An address that is not public."""

BY_NAME = (
    _name("127.0.0.1"),
    _name("10.96.0.1"),
    _name("169.254.169.254"),
    _name("::1"),
    _name("::ffff:10.0.0.1"),
    _name("64:ff9b::a00:1"),
    _name(PUBLIC, "10.0.0.1"),
    _name("10.0.0.1", PUBLIC),
    _name(PUBLIC, "fd00::1"),
    _name(),
    HostileUrl("http://kubernetes.default.svc/", _REFUSED, {"kubernetes.default.svc": ("3.5.7.9",)}),
    HostileUrl("http://localhost/", _REFUSED, {"localhost": ("127.0.0.1",)}),
    HostileUrl("http://refused.example/", _REFUSED, {"refused.example": ("8.8.4.4",)}),
)
"""A name that stands for such a one, beside others perhaps, or for nothing; 8.8.4.4 is one of the cluster's own."""

BY_DOMAIN = (
    _domain("http://evil.example/", GOOD),
    _domain(f"http://{GOOD}/"),
    _domain("http://a.good.example/", GOOD),
    _domain(f"http://{GOOD}/", "*.good.example"),
    _domain("http://notgood.example/", "*.good.example", GOOD),
    _domain("http://good.example.evil.example/", GOOD, "*.good.example"),
    _domain("http://gооd.example/", GOOD),  # two of its letters are Cyrillic
    _domain("http://evil.example/#good.example", GOOD),
    _domain("http://evil.example/?good.example", GOOD),
    _domain("http://1.1.1.1/", "*.1.1.1", "not a domain/"),
)
"""A host that the model does not allow."""

BY_REDIRECT = (
    _redirect("http://127.0.0.1/"),
    _redirect("http://169.254.169.254/latest/meta-data/"),
    _redirect("http://[::1]/"),
    _redirect("http://2130706433/"),
    _redirect("//127.0.0.1/"),
    _redirect("http://inner.example/", **{"inner.example": ("10.0.0.1",)}),
    _redirect("http://user@good.example:{port}/"),
    _redirect("http://good.example:6379/"),
    _redirect("file:///etc/passwd"),
    _redirect("gopher://127.0.0.1:6379/_FLUSHALL"),
    _redirect("javascript:alert(1)"),
    _redirect("http://[::1/"),
    _redirect("/a b"),
    _redirect("\\\\127.0.0.1\\a"),
    _redirect("/again"),  # for ever
)
"""A server that sends on to one."""

HOSTILE_URLS = (*BY_TEXT, *BY_ADDRESS, *BY_NAME, *BY_DOMAIN, *BY_REDIRECT)
