"""URLs at random: what is accepted says the same to everybody who reads it after us."""

import ipaddress
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from conch_media.hosts import BadHost, host_in_one_form
from conch_media.picture_url import BadUrl, PictureUrl, read_redirect, read_url

BITS = st.sampled_from(
    [
        *(
            "http://",
            "https://",
            "//",
            "/",
            "\\",
            ":",
            "@",
            "?",
            "#",
            "[",
            "]",
            "%",
            "%2f",
            "%40",
            ".",
            "。",
            "．",
            "..",
            "-",
        ),
        *(
            "a",
            "example",
            "a.example",
            "127.0.0.1",
            "0x7f",
            "017",
            "2130706433",
            "::1",
            "::ffff:127.0.0.1",
            "xn--",
            "é",
        ),
        *(
            "80",
            "443",
            ":80",
            ":8080",
            "：",
            "＠",
            "／",
            "℀",
            "ß",
            "①",
            "\u00ad",
            "\u200b",
            "\u202e",
            "\ud800",
            " ",
            "\t",
            "\r\n",
        ),
    ]
)
URLS = st.one_of(
    st.lists(BITS, max_size=12).map("".join),
    st.lists(BITS, max_size=10).map(lambda bits: "http://" + "".join(bits)),
    st.text(max_size=40).map(lambda text: "https://" + text),
)
BASE = PictureUrl("https", "a.example", 443, "/x", "")


def agrees(url: PictureUrl) -> None:
    """Fail unless two other libraries read the same in a URL that was accepted."""
    written = str(url)
    assert written.isascii()
    assert read_url(written) == url
    other = urlsplit(written)
    assert (other.scheme, other.hostname, other.port or url.port, other.username) == (
        url.scheme,
        url.host,
        url.port,
        None,
    )
    client = URL(written, encoded=True)
    assert (client.raw_host, client.port, client.user, client.raw_path_qs) == (
        url.host,
        url.port,
        None,
        url.path + (f"?{url.query}" if url.query else ""),
    )
    if url.host.replace(".", "").isdigit() or ":" in url.host:
        assert str(ipaddress.ip_address(url.host)) == url.host


@given(URLS)
def test_what_is_accepted_is_read_the_same_by_all(written: str) -> None:
    try:
        url = read_url(written)
    except BadUrl:
        return
    agrees(url)


@given(URLS)
def test_a_redirect_is_read_the_same_by_all(location: str) -> None:
    try:
        url = read_redirect(BASE, location)
    except BadUrl:
        return
    agrees(url)


@given(st.one_of(st.text(max_size=40), st.lists(BITS, max_size=8).map("".join)))
def test_the_one_form_of_a_host_stays_as_it_is(written: str) -> None:
    try:
        host = host_in_one_form(written)
    except BadHost:
        return
    assert host_in_one_form(f"[{host}]" if ":" in host else host) == host
