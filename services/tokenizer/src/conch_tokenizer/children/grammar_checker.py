"""Checks grammars in a child: compiled as the engine will compile them, by a process that may die of it.

Most of what is too much is refused by the compiler's own limits. What is left, such as a chain of rules that overflows
the stack, ends the child: by its limits on memory and stack, or by the kernel's timer when its processor time is over.
So no grammar is refused because the machine is busy.
"""

import resource
import signal
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conch_contracts.messages.tokenization import CheckGrammarRequest
from conch_contracts.names import Digest
from conch_guidance.compiler import GrammarCompiler
from conch_guidance.errors import UnusableGrammar
from conch_kit.errors import InvalidRequest
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.errors import BundleMissing

_STACK_BYTES = 4 * 1024**2
"""Half of what an engine's thread has, so that whatever fits here fits there."""


class GrammarChecker:
    """The tokenizers for which this child has checked grammars, the least recently used dropped first."""

    def __init__(self, limits: ChildLimits) -> None:
        self._limits = limits
        self._folders: OrderedDict[Digest, Path] = OrderedDict()
        self._compilers: dict[Digest, GrammarCompiler] = {}

    def note(self, digest: Digest, folder: Path) -> None:
        """Note the folder that has a tokenizer; the first check for it reads it, within its own time."""
        self._folders[digest] = folder
        while len(self._folders) > self._limits.models_in_memory:
            dropped, _ = self._folders.popitem(last=False)
            self._compilers.pop(dropped, None)

    def check(self, request: CheckGrammarRequest) -> None:
        """Compile a grammar; raises InvalidRequest and BundleMissing, or ends the process."""
        if request.digest not in self._folders:
            raise BundleMissing(request.digest)
        self._folders.move_to_end(request.digest)
        try:
            compiler = self._compiler(request.digest)
            with _confined(self._limits):
                compiler.check(request.grammar, foreign=request.foreign)
        except UnusableGrammar as exc:
            raise InvalidRequest(str(exc)) from exc

    def _compiler(self, digest: Digest) -> GrammarCompiler:
        known = self._compilers.get(digest)
        if known is None:
            known = GrammarCompiler.of_folder(self._folders[digest], vocabulary=None, kept=1)
            self._compilers[digest] = known
        return known


@contextmanager
def _confined(limits: ChildLimits) -> Iterator[None]:
    """End the process when what happens inside takes too much."""
    rlimits = {
        resource.RLIMIT_AS: _address_space() + limits.grammar_memory_bytes,
        resource.RLIMIT_STACK: _STACK_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    before = {limit: resource.getrlimit(limit) for limit in rlimits}
    for limit, value in rlimits.items():
        _, hard = before[limit]
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    signal.setitimer(signal.ITIMER_PROF, limits.grammar_cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        for limit, pair in before.items():
            resource.setrlimit(limit, pair)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
