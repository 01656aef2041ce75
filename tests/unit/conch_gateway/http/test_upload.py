"""Forms with a file as they arrive, within bounds."""

import pytest

from conch_gateway.http.upload import MAX_FORM_BYTES, read_form
from conch_gateway.http.upload_spool import SpoolSpace, UploadSpool
from conch_kit.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from conch_kit.http.asgi import ClientGone
from testkit.http.forms import AUDIO, HEADERS, form, parts, pieces, text_part

LIMIT = 100_000


async def arrives(*messages, headers=()):
    waiting = list(messages)

    async def receive():
        return waiting.pop(0)

    space = SpoolSpace(10**9)
    with UploadSpool(space) as spool:
        fields = await read_form(receive, dict(HEADERS) | dict(headers), spool, max_file_bytes=LIMIT)
        return fields, await spool.piece(0), waiting


def requests(arrived):
    return [{"type": "http.request", "body": piece, "more_body": True} for piece in arrived]


def ends(body=b""):
    return {"type": "http.request", "body": body, "more_body": False}


@pytest.mark.parametrize("size", [1, 100, 10_000])
async def test_a_form_arrives_with_its_file(size):
    body = form(("model", "whisper"))
    fields, content, _ = await arrives(*requests(pieces(body, size)), ends())
    assert [(field.name, field.text) for field in fields] == [("model", "whisper")]
    assert content == AUDIO


async def test_a_form_without_a_file_has_no_fields():
    fields, content, _ = await arrives(ends(parts(text_part("model", "whisper"))))
    assert (fields, content) == (None, b"")


async def test_a_length_that_is_too_large_is_refused_before_anything_is_read():
    for length in (str(LIMIT + MAX_FORM_BYTES + 1), "9" * 30, "9" * 5000):
        with pytest.raises(BodyTooLarge, match=rf"Maximum content size limit \({LIMIT}\) exceeded"):
            await arrives(headers=((b"content-length", length.encode()),))


async def test_a_file_that_is_too_large_is_refused_as_soon_as_it_is():
    with pytest.raises(BodyTooLarge, match="Maximum content size limit"):
        await arrives(*requests(pieces(form(content=b"x" * (LIMIT + 1))[:-10], 1000)))


async def test_what_is_no_file_has_a_bound_of_its_own():
    endless = form() + b"x" * MAX_FORM_BYTES
    with pytest.raises(BodyTooLarge, match="beside the file"):
        await arrives(*requests(pieces(endless, 1000)))


async def test_a_client_that_hangs_up_is_gone():
    with pytest.raises(ClientGone):
        await arrives(*requests(pieces(form(), 100)[:3]), {"type": "http.disconnect"})


async def test_a_body_that_ends_too_early_is_no_form():
    with pytest.raises(InvalidRequest) as caught:
        await arrives(ends(form()[:-9]))
    assert caught.value.code == "invalid_multipart"


async def test_a_body_of_another_type_is_not_read():
    with pytest.raises(UnsupportedMediaType):
        await arrives(headers=((b"content-type", b"application/json"),))
