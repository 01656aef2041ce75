"""Requests whose answers must match a grammar: compiled in a thread of their own, then handed to the engine.

Meanwhile the engine goes on computing for others: the library that compiles releases the interpreter's lock.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_guidance.compiler import GrammarCompiler
from conch_guidance.errors import UnusableGrammar
from conch_runtime_cpu.engine.engine_thread import EngineThread
from conch_runtime_cpu.engine.response_queue import Channel
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.engine.scheduler import SequenceEvent
from conch_runtime_cpu.errors import ChannelClosed, EngineStopped
from conch_runtime_cpu.masks.grammar_mask import GrammarMask
from conch_runtime_cpu.masks.thinking_mask import thinking_mask
from conch_runtime_cpu.requests import GenerationRequest

_JOIN_S = 10.0
TokensEngine = EngineThread[GenerationRequest, SequenceEvent, PartialResponse]
TokensChannel = Channel[PartialResponse]

log = logging.getLogger(__name__)


class GrammarCompilation:
    """Compiles one grammar after the other."""

    def __init__(self, engine: TokensEngine, compiler: Callable[[], GrammarCompiler]) -> None:
        """Get ready; `compiler` is called with the first request, and raises UnusableGrammar."""
        self._engine = engine
        self._make_compiler = compiler
        self._compiler: GrammarCompiler | None = None
        self._waiting: SimpleQueue[tuple[GenerationRequest, TokensChannel] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="grammars", daemon=True)

    def start(self) -> None:
        """Start to compile."""
        self._thread.start()

    def submit(self, request: GenerationRequest, channel: TokensChannel) -> None:
        """Queue a request and return at once; its answer, or why there is none, goes to the channel."""
        self._waiting.put((request, channel))

    def stop(self) -> None:
        """End the thread; to be called before the engine is stopped."""
        self._waiting.put(None)
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            self._hand_on(*waiting)

    def _hand_on(self, request: GenerationRequest, channel: TokensChannel) -> None:
        try:
            self._engine.submit(replace(request, mask=thinking_mask(request.sampling, self._mask(request))), channel)
        except UnusableGrammar as error:
            _fail(channel, f"{INVALID_PREFIX}grammar: {error}")
        except EngineStopped as error:
            _fail(channel, str(error))
        except Exception:  # the thread must go on for the requests that come later
            log.exception("A grammar could not be compiled.")
            _fail(channel, "The grammar could not be compiled.")

    def _mask(self, request: GenerationRequest) -> GrammarMask | None:
        sampling = request.sampling
        if sampling.grammar is None:
            return None
        if self._compiler is None:
            self._compiler = self._make_compiler()
        endings = set(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            endings |= set(sampling.eos_token_ids)
        silent = {*self._compiler.ending_ids, *sampling.eos_token_ids}
        return GrammarMask(self._compiler.matcher(sampling.grammar), endings=sorted(endings), silent=sorted(silent))


def _fail(channel: TokensChannel, message: str) -> None:
    try:
        channel.send(PartialResponse(error=message))
    except ChannelClosed:
        log.info("The client of a request that failed is gone.")
