"""Builds an engine from its settings: the folder is read, converted if need be, and loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from conch_guidance.compiler import GrammarCompiler
from conch_runtime_cpu.engine.decoder import OnnxDecoder, slots_within
from conch_runtime_cpu.engine.engine_thread import EngineThread
from conch_runtime_cpu.engine.grammar_compilation import GrammarCompilation, TokensEngine
from conch_runtime_cpu.engine.response_queue import ResponseQueue
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.engine.scheduler import Scheduler
from conch_runtime_cpu.engine.vision import OnnxVision, SeenPictures, VisionCounter, picture_shape, uncounted
from conch_runtime_cpu.graphs.config_json import read_config
from conch_runtime_cpu.graphs.conversion import converted_decoder, converted_seeing_decoder
from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture, parse_decoder_architecture
from conch_runtime_cpu.graphs.vision_architecture import read_seeing_architecture, sees_pictures
from conch_runtime_cpu.requests import ModelLimits
from conch_runtime_cpu.settings import RuntimeSettings

_COMPILED_GRAMMARS = 64


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to be started."""

    engine: TokensEngine
    grammars: GrammarCompilation
    """Takes the requests that have a grammar, and hands them on to the engine."""
    limits: ModelLimits


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a scheduler runs on, and what a request may be like."""

    decoder: OnnxDecoder
    seen: SeenPictures | None
    limits: ModelLimits


def load(settings: RuntimeSettings, vision_counter: VisionCounter = uncounted) -> LoadedModel:
    """Load a model; raises UnusableModel.

    Of one that sees, `vision_counter` makes what is called each time a picture was computed.
    """
    config = read_config(settings.model_folder)
    parts = _seeing(settings, config, vision_counter) if sees_pictures(config) else _text_alone(settings, config)
    parts.decoder.warm_up()
    queue = ResponseQueue(PartialResponse, PartialResponse.add)
    scheduler = Scheduler(parts.decoder, parts.seen)
    engine = EngineThread(scheduler, queue, tokens_per_second=settings.tokens_per_second)
    compiler = partial(
        GrammarCompiler.of_folder, settings.model_folder, vocabulary=parts.limits.vocabulary, kept=_COMPILED_GRAMMARS
    )
    return LoadedModel(engine, GrammarCompilation(engine, compiler), parts.limits)


def _text_alone(settings: RuntimeSettings, config: Mapping[str, object]) -> _Parts:
    architecture = parse_decoder_architecture(config)
    served, slots = _within(settings, architecture)
    model = converted_decoder(settings.model_folder, architecture, settings.quantization, settings.cache_folder)
    return _Parts(OnnxDecoder(model, served, slots), None, ModelLimits(served.vocabulary, served.context))


def _seeing(settings: RuntimeSettings, config: Mapping[str, object], vision_counter: VisionCounter) -> _Parts:
    folder = settings.model_folder
    text, vision = read_seeing_architecture(folder, config)
    served, slots = _within(settings, text)
    files = converted_seeing_decoder(folder, text, vision, settings.quantization, settings.cache_folder)
    tower = OnnxVision(files.vision)
    decoder = OnnxDecoder(files.decoder, served, slots, feature_width=tower.warm_up())
    limits = ModelLimits(served.vocabulary, served.context, picture_shape(vision))
    return _Parts(decoder, SeenPictures(tower, settings.feature_cache_bytes, vision_counter()), limits)


def _within(settings: RuntimeSettings, architecture: DecoderArchitecture) -> tuple[DecoderArchitecture, int]:
    """Return the architecture with the context that is served, and how many sequences run at once."""
    served = replace(architecture, context=min(architecture.context, settings.max_length or architecture.context))
    return served, slots_within(served, settings.max_batch_size, settings.kv_cache_bytes)
