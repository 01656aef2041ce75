"""A lane against a tokenizer that says anything: whoever asks has an answer of its own number, or hears of the end."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from conch_contracts.messages.tokenizer_frames import Operation
from conch_gateway.upstream.lane import Lane, LaneLost, LaneRefused
from conch_kit.frames import Frame, pack

_OPENED = b"HTTP/1.1 101 Switching Protocols\r\nx-conch-lane: 7\r\nx-conch-lanes: 2\r\n\r\n"
_HEADS = st.one_of(
    st.just(_OPENED),
    st.just(_OPENED),
    st.sampled_from(
        [
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 \xb2 x\r\n\r\n",
            _OPENED.replace(b"7", b"\xb2"),
            _OPENED.replace(b"7", b"9" * 5000),
            _OPENED.replace(b"lanes: 2", b"lanes: 999999999"),
            _OPENED.replace(b"lanes: 2", b"lanes: 0"),
            b"\r\n\r\n",
            b"x" * 20_000,
        ]
    ),
    st.binary(max_size=60),
)
_FRAMES = st.builds(pack, st.integers(0, 9), st.binary(max_size=20), st.integers(0, 5))
_SAID = st.lists(st.one_of(_FRAMES, _FRAMES, st.binary(max_size=20)), max_size=8)


class _Wire(asyncio.Transport):
    """Keeps what is written, and tells the lane of its end as a loop does: after the call that it ends in."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self._lane = lane
        self.ended = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return _Socket()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        if not self.ended:
            self.ended = True
            asyncio.get_running_loop().call_soon(self._lane.connection_lost, None)


class _Socket:
    def setsockopt(self, *_: int) -> None:
        pass


@given(head=_HEADS, said=_SAID, cut=st.integers(1, 40))
def test_whatever_a_tokenizer_says_every_request_ends_once(head: bytes, said: list[bytes], cut: int) -> None:
    async def play() -> None:
        lost: list[Lane] = []
        lane = Lane("tokenizer", None, lost.append)
        wire = _Wire(lane)
        lane.connection_made(wire)
        for at in range(0, len(head), cut):
            if not wire.ended:
                lane.data_received(head[at : at + cut])
        asked = dict(lane.ask(Operation.PREPARE, b"{}") for _ in range(3)) if lane.opened.done() else {}
        data = b"".join(said)
        for at in range(0, len(data), cut):
            if not wire.ended:
                lane.data_received(data[at : at + cut])
        wire.abort()
        await asyncio.sleep(0)
        assert all(answer.done() for answer in (lane.opened, *asked.values()))
        outcomes = await asyncio.gather(*asked.values(), return_exceptions=True)
        opened = await asyncio.gather(lane.opened, return_exceptions=True)
        assert opened == [None] or isinstance(opened[0], (LaneRefused, LaneLost))
        assert lost == ([lane] if opened == [None] else [])
        assert lane.in_flight == 0
        assert 1 <= lane.of <= 1024
        for number, outcome in zip(asked, outcomes, strict=True):
            assert isinstance(outcome, LaneLost) or (isinstance(outcome, Frame) and outcome.number == number)

    asyncio.run(play())
