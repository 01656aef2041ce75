"""When the status and the comments of a stream go out."""

from conch_contracts.messages.transcription import SpeechUsage
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript_writer import StreamedTranscript
from testkit.builders.transcriptions import VOCABULARY, transcribe_request
from testkit.clock import FakeClock

WORKING = b": working\n\n"
USAGE = SpeechUsage(audio_s=1.0, completion_tokens=1)
SAID = (Segment(0.0, 1.5, " w01", (1,), (-0.5,), 0.0, -0.5, 0.2, 1.1, 0.3, ()),)


class Caller:
    """Notes what the gateway gets."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []

    async def send(self, message) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
        else:
            self.bodies.append(message["body"])


def streamed() -> tuple[StreamedTranscript, Caller, FakeClock]:
    caller, clock = Caller(), FakeClock()
    request = transcribe_request(stream="openai", first_token_timeout_s=60.0, inter_token_timeout_s=30.0)
    return StreamedTranscript(request, VOCABULARY, caller.send, clock), caller, clock


async def test_a_long_first_window_tells_that_an_engine_works_before_the_gateway_gives_it_up():
    answer, caller, clock = streamed()
    for _ in range(59):
        clock.advance(0.5)
        await answer.working()
    assert (answer.started, caller.statuses) == (False, [])
    clock.advance(0.5)
    await answer.working()
    assert (answer.started, caller.statuses, caller.bodies) == (True, [200], [WORKING])
    for _ in range(4):
        clock.advance(0.5)
        await answer.working()
    assert caller.bodies == [WORKING] * 3


async def test_a_first_window_that_ends_soon_begins_the_answer():
    answer, caller, clock = streamed()
    clock.advance(29.0)
    await answer.working()
    await answer.add(SAID, USAGE)
    assert caller.statuses == [200]
    assert len(caller.bodies) == 1
    assert caller.bodies[0].startswith(b'data: {"type":"transcript.text.delta"')


async def test_comments_come_between_segments_that_are_far_apart_alone():
    answer, caller, clock = streamed()
    await answer.add(SAID, USAGE)
    clock.advance(0.9)
    await answer.working()
    assert len(caller.bodies) == 1
    clock.advance(0.2)
    await answer.working()
    assert caller.bodies[1:] == [WORKING]
