"""Builds an engine from its settings: the folder is read, converted if need be, and loaded."""

from dataclasses import dataclass, replace
from functools import partial

from conch_guidance.compiler import GrammarCompiler
from conch_runtime_cpu.engine.decoder import OnnxDecoder, slots_within
from conch_runtime_cpu.engine.engine_thread import EngineThread
from conch_runtime_cpu.engine.grammar_compilation import GrammarCompilation, TokensEngine
from conch_runtime_cpu.engine.response_queue import ResponseQueue
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.engine.scheduler import Scheduler
from conch_runtime_cpu.graphs.conversion import converted_decoder
from conch_runtime_cpu.graphs.decoder_architecture import read_decoder_architecture
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


def load(settings: RuntimeSettings) -> LoadedModel:
    """Load a model; raises UnusableModel."""
    architecture = read_decoder_architecture(settings.model_folder)
    served = replace(architecture, context=min(architecture.context, settings.max_length or architecture.context))
    slots = slots_within(served, settings.max_batch_size, settings.kv_cache_bytes)
    model = converted_decoder(settings.model_folder, architecture, settings.quantization, settings.cache_folder)
    decoder = OnnxDecoder(model, served, slots)
    decoder.warm_up()
    queue = ResponseQueue(PartialResponse, PartialResponse.add)
    engine = EngineThread(Scheduler(decoder), queue, tokens_per_second=settings.tokens_per_second)
    compiler = partial(
        GrammarCompiler.of_folder, settings.model_folder, vocabulary=architecture.vocabulary, kept=_COMPILED_GRAMMARS
    )
    limits = ModelLimits(served.vocabulary, served.context)
    return LoadedModel(engine, GrammarCompilation(engine, compiler), limits)
