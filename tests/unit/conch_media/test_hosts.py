import pytest

from conch_media.hosts import BadHost, host_in_one_form, is_allowed


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("ｅxample。com", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("my_bucket.s3.example", "my_bucket.s3.example"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("１２７.０.０.１", "127.0.0.1"),
        ("[2001:DB8::0:1]", "2001:db8::1"),
        ("[::ffff:1.2.3.4]", "::ffff:102:304"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("0x7f.example", "0x7f.example"),
    ],
)
def test_a_host_has_one_form(written: str, form: str) -> None:
    assert host_in_one_form(written) == form


@pytest.mark.parametrize(
    "written",
    ["", ".", "a..b", "-a.b", "a b", "a/b", "127.1", "1", "0x", "1.2.3.4.5", "[::1", "[]", "[1.2.3.4]", "é..b"],
)
def test_what_is_no_host_is_refused(written: str) -> None:
    with pytest.raises(BadHost):
        host_in_one_form(written)


@pytest.mark.parametrize(
    ("host", "domain", "allowed"),
    [
        ("a.example", "a.example", True),
        ("a.example", "A.Example.", True),
        ("b.a.example", "a.example", False),
        ("b.a.example", "*.a.example", True),
        ("c.b.a.example", "*.a.example", True),
        ("a.example", "*.a.example", False),
        ("ba.example", "*.a.example", False),
        ("anything.example", "*", True),
        ("1.2.3.4", "*", True),
        ("1.2.3.4", "1.2.3.4", True),
        ("1.2.3.4", "*.2.3.4", False),
        ("2001:db8::1", "[2001:db8:0::1]", True),
        ("xn--bcher-kva.example", "bücher.example", True),
        ("a.example", "**", False),
        ("a.example", "a.*", False),
        ("a.example", "https://a.example", False),
        ("a.example", "", False),
        ("a.example", "*.", False),
    ],
)
def test_a_domain_covers_one_host_or_all_below_one(host: str, domain: str, allowed: bool) -> None:
    assert is_allowed(host, ("other.example", domain)) is allowed


def test_no_domain_allows_nothing() -> None:
    assert not is_allowed("a.example", ())
