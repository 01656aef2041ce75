"""The frames of one streamed answer, and which module makes them for a request."""

import time
from typing import Protocol, assert_never

from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_kit.errors import ServiceError
from conch_llm_worker.anthropic.stream_frames import MessageFrames
from conch_llm_worker.frames.detailed_chunks import DetailedFrames
from conch_llm_worker.frames.plain_chunks import ChatFrames, CompletionFrames
from conch_llm_worker.generation.choice_update import ChoiceUpdate
from conch_llm_worker.responses.stream_frames import ResponseFrames
from conch_llm_worker.text.vocabulary import Vocabulary


class Frames(Protocol):
    """Makes the frames of one answer."""

    def opening(self, index: int) -> bytes:
        """Return what a choice begins with."""
        ...

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return the frames of one update; empty when it has nothing to show."""
        ...

    def ending(self, usage: Usage) -> bytes:
        """Return what a complete answer ends with."""
        ...

    def failure(self, error: ServiceError, usage: Usage) -> bytes:
        """Return what an answer ends with that broke after its first byte."""
        ...


def frames_for(request: GenerateRequest, vocabulary: Vocabulary) -> Frames:
    """Return the frame maker for a request."""
    if request.details is not None:
        return DetailedFrames(request, request.details, vocabulary, time.monotonic)
    match request.api:
        case Api.CHAT:
            return ChatFrames(request, vocabulary)
        case Api.COMPLETION:
            return CompletionFrames(request, vocabulary)
        case Api.RESPONSES:
            return ResponseFrames(request, vocabulary)
        case Api.MESSAGES:
            return MessageFrames(request)
        case _:
            assert_never(request.api)
