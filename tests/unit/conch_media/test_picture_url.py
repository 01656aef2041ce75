"""What is refused stands in `testkit.http.hostile_urls` and is proved by `test_forbidden_connects`."""

import pytest

from conch_media.picture_url import BadUrl, PictureUrl, read_redirect, read_url

BASE = PictureUrl("https", "a.example", 443, "/x/y.png", "z=1")


@pytest.mark.parametrize(
    ("written", "authority", "sent"),
    [
        ("http://a.example", "a.example", "/"),
        ("HTTP://A.Example:80/x", "a.example", "/x"),
        ("https://a.example:443/x?", "a.example", "/x"),
        ("https://a.example:/x", "a.example", "/x"),
        ("https://a.example:80/x", "a.example:80", "/x"),
        ("http://a.example:0443/x", "a.example:443", "/x"),
        ("https://a.example/x%2Fy/../z;p?a=b%26c&d=%zz#e", "a.example", "/x%2Fy/../z;p?a=b%26c&d=%zz"),
        ("https://a.example/s3?X-Amz-Signature=a+b/c==", "a.example", "/s3?X-Amz-Signature=a+b/c=="),
        ("https://a.example/ü?q=日", "a.example", "/%C3%BC?q=%E6%97%A5"),
        ("https://[2606:4700::1111]/x", "[2606:4700::1111]", "/x"),
        ("https://a.example?x", "a.example", "/?x"),
    ],
)
def test_a_url_is_sent_as_it_was_written(written: str, authority: str, sent: str) -> None:
    url = read_url(written)
    assert url.authority == authority
    assert str(url) == f"{url.scheme}://{authority}{sent}"


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b", "https://a.example/b"),
        ("b?c", "https://a.example/x/b?c"),
        ("//b.example/c", "https://b.example/c"),
        ("http://b.example/c", "http://b.example/c"),
        ("", "https://a.example/x/y.png?z=1"),
    ],
)
def test_a_redirect_may_be_relative(location: str, leads_to: str) -> None:
    assert str(read_redirect(BASE, location)) == leads_to


@pytest.mark.parametrize(
    "location", ["https://b.example:8080/", "mailto:a@b", "/a\tb", "https://[x/", "https://a\udcff.example/"]
)
def test_a_redirect_is_as_strict(location: str) -> None:
    with pytest.raises(BadUrl):
        read_redirect(BASE, location)
