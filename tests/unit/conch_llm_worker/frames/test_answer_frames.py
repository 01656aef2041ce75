from conch_contracts.messages.generation import Api, Details
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.frames.detailed_chunks import DetailedFrames
from conch_llm_worker.frames.plain_chunks import ChatFrames, CompletionFrames
from testkit.builders.generate_requests import generate_request
from testkit.models.vocabularies import byte_level

VOCABULARY = byte_level()


def test_only_requests_with_details_pay_for_them() -> None:
    assert isinstance(frames_for(generate_request(), VOCABULARY), ChatFrames)
    assert isinstance(frames_for(generate_request(api=Api.COMPLETION), VOCABULARY), CompletionFrames)
    assert isinstance(frames_for(generate_request(details=Details()), VOCABULARY), DetailedFrames)
