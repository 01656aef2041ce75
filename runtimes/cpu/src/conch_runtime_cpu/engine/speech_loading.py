"""Builds an engine of speech from its settings: the folder is read, converted if need be, and loaded."""

from dataclasses import dataclass

from conch_contracts.cpu_runtime import Quantization
from conch_contracts.dialects.speech import PROGRESS_S
from conch_runtime_cpu.engine.engine_thread import EngineThread
from conch_runtime_cpu.engine.response_queue import ResponseQueue
from conch_runtime_cpu.engine.speech_response import SpeechResponse
from conch_runtime_cpu.engine.speech_scheduler import SpeechScheduler, WindowEvent
from conch_runtime_cpu.engine.whisper_model import WhisperModel, window_slots_within
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.conversion import converted_whisper
from conch_runtime_cpu.graphs.whisper_architecture import read_whisper_architecture
from conch_runtime_cpu.settings import RuntimeSettings
from conch_runtime_cpu.speech.spectrogram import Spectrogram
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary, check_spectrogram, read_speech_vocabulary
from conch_runtime_cpu.speech.window_requests import WindowRequest

SpeechEngine = EngineThread[WindowRequest, WindowEvent, SpeechResponse]
_SIGN_OF_LIFE_S = PROGRESS_S / 3
"""Early enough that one which is late by as much is in time."""


@dataclass(frozen=True, slots=True)
class LoadedSpeechModel:
    """A model that is ready to be started."""

    engine: SpeechEngine
    vocabulary: SpeechVocabulary
    context: int


def load_speech(settings: RuntimeSettings) -> LoadedSpeechModel:
    """Load a model; raises UnusableModel."""
    if settings.quantization is not Quantization.NONE:
        raise UnusableModel(f"Models of speech are not quantized; set quantization to {Quantization.NONE}.")
    architecture = read_whisper_architecture(settings.model_folder)
    check_spectrogram(settings.model_folder, architecture)
    vocabulary = read_speech_vocabulary(settings.model_folder, architecture)
    context = min(architecture.context, settings.max_length or architecture.context)
    slots = window_slots_within(architecture, context, settings.max_batch_size, settings.kv_cache_bytes)
    files = converted_whisper(settings.model_folder, architecture, settings.cache_folder)
    model = WhisperModel(files, architecture, context, slots)
    model.warm_up()
    hearing = Spectrogram(architecture.mels)
    scheduler = SpeechScheduler(model, hearing, vocabulary, filter_width=architecture.median_filter)
    queue = ResponseQueue(SpeechResponse, SpeechResponse.add, sign_of_life_s=_SIGN_OF_LIFE_S)
    engine = EngineThread(scheduler, queue, tokens_per_second=settings.tokens_per_second)
    return LoadedSpeechModel(engine, vocabulary, context)
