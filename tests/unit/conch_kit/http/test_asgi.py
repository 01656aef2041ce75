import pytest

from conch_kit.errors import BodyTooLarge
from conch_kit.http.asgi import ClientGone, Receive, Scope, Send, header, json_response, read_body
from testkit.http.asgi import call


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    await json_response(send, 200, await read_body(receive, 10), [(b"x-extra", header(scope, b"x-in") or b"none")])


@pytest.mark.parametrize("chunks", [[b""], [b"0123456789"], [b"01234", b"", b"56789"]])
async def test_a_body_up_to_the_limit_is_read_whole(chunks: list[bytes]) -> None:
    answer = await call(_echo, "/", chunks=chunks, headers=[("x-in", "a"), ("x-in", "b")])
    assert answer.body == b"".join(chunks)
    assert answer.headers == {
        "content-type": "application/json",
        "x-extra": "a",
        "content-length": str(len(answer.body)),
    }


@pytest.mark.parametrize("chunks", [[b"0123456789a"], [b"012345", b"67890"]])
async def test_a_body_over_the_limit_is_refused_before_it_ends(chunks: list[bytes]) -> None:
    with pytest.raises(BodyTooLarge, match="limit of 10 bytes"):
        await call(_echo, "/", chunks=chunks, hang_up=True)


async def test_a_client_that_hangs_up_in_the_body_is_told_apart() -> None:
    with pytest.raises(ClientGone):
        await call(_echo, "/", chunks=[b"01"], hang_up=True)
