"""The clients of the three paths to a transcript: straight to Triton, through the worker, through the gateway."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from bench.clients.connection import Answer
from bench.clients.posting import PostingClient
from conch_contracts.dialects import speech as dialect
from conch_contracts.headers import INTERNAL_TOKEN, USAGE_COMMENT
from conch_contracts.messages.message import changed, from_json, to_json
from conch_contracts.messages.transcription import SpeechUsage, TranscribeRequest, head_of
from conch_contracts.names import TRANSCRIBE_PATH
from conch_kit.triton.tensors import Outputs, add_input, add_raw, new_request
from conch_speech_worker.engine.prompts import language_id_of, prompt_of, window_parameters
from conch_speech_worker.hearing import MOST_AT_ONCE
from conch_speech_worker.vocabulary import TranscriptVocabulary
from conch_speech_worker.windows.loudness import Samples

_BOUNDARY = "bench"
_FIELDS = (("model", "tiny-whisper"), ("language", "en"))


class DirectSpeech:
    """Sends Triton the windows as the worker sends them, and reads nothing of an answer but its end."""

    def __init__(self, request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> None:
        self._target = request.target
        self._prompt = _prompt(request, vocabulary)
        self._parameters = to_json(window_parameters(request, len(self._prompt), vocabulary))

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._target.grpc)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def hear(self, windows: Sequence[Samples]) -> None:
        """Have windows heard, as many at once as a worker does."""
        room = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(samples: Samples) -> None:
            async with room:
                await self._hear(samples)

        await asyncio.gather(*(one(samples) for samples in windows))

    async def _hear(self, samples: Samples) -> None:
        request = new_request(self._target.model, "bench")
        add_raw(request, dialect.PCM, "INT16", [len(samples)], samples.tobytes())
        add_input(request, dialect.PROMPT_IDS, "INT32", [len(self._prompt)], self._prompt)
        add_input(request, dialect.PARAMETERS, "BYTES", [1], [self._parameters])

        async def requests() -> AsyncIterator[service_pb2.ModelInferRequest]:
            yield request

        async for message in self._stub.ModelStreamInfer(requests(), timeout=60):
            if message.error_message:
                raise RuntimeError(message.error_message)
            if message.infer_response.outputs and Outputs(message.infer_response).has(dialect.FINISH_REASON):
                return
        raise RuntimeError("Triton ended its answer without saying why.")


class WorkerSpeech(PostingClient):
    """Asks a speech-worker as the gateway does."""

    def __init__(self, url: str, token: str, request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> None:
        super().__init__(url, {INTERNAL_TOKEN: token})
        self._prompt = _prompt(request, vocabulary)
        self._request = request

    async def transcribe(self, file: bytes) -> None:
        """Have a file heard."""
        await self._ask(file)

    async def calls(self, file: bytes) -> int:
        """Return how often an engine is asked about a file, each time with the same prompt."""
        answer = await self._ask(file, stream="openai")
        comment = answer.tail.rpartition(USAGE_COMMENT.encode())[2].partition(b"\n")[0]
        return from_json(SpeechUsage, comment).prompt_tokens // len(self._prompt)

    async def _ask(self, file: bytes, **changes: object) -> Answer:
        return await self.post(TRANSCRIBE_PATH, head_of(changed(self._request, file_bytes=len(file), **changes)) + file)


class GatewaySpeech(PostingClient):
    """Asks the gateway, as a client does."""

    async def transcribe(self, file: bytes) -> None:
        """Have a file heard."""
        fields = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in _FIELDS]
        head = "".join(f"--{_BOUNDARY}\r\n{field}\r\n" for field in fields)
        head += f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        body = head.encode() + file + f"\r\n--{_BOUNDARY}--\r\n".encode()
        await self.post("/v1/audio/transcriptions", body, f"multipart/form-data; boundary={_BOUNDARY}")


def _prompt(request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> tuple[int, ...]:
    return prompt_of(request, language_id_of(request, vocabulary), vocabulary)
