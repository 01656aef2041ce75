"""What a child may use while it compiles a grammar, and that all is as before behind that."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.tokenization import CheckGrammarRequest
from conch_contracts.names import Digest
from conch_guidance.errors import UnusableGrammar
from conch_kit.errors import InvalidRequest
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.errors import BundleMissing

LIMITS = ChildLimits(
    memory_bytes=2**31, max_text_bytes=2**20, models_in_memory=2, grammar_memory_bytes=2**28, grammar_cpu_s=60
)
KINDS = (resource.RLIMIT_AS, resource.RLIMIT_STACK, resource.RLIMIT_CORE)
DIGESTS = [Digest(str(number) * 64) for number in range(3)]
AN_OBJECT = Grammar(kind=GrammarKind.JSON_OBJECT, definition="")


class Compiler:
    """Looks at what it may use."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def check(self, grammar: Grammar, *, foreign: bool) -> None:
        self._look()


class Checker(GrammarChecker):
    """A checker whose compiler only looks."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__(LIMITS)
        self._look = look

    def _compiler(self, digest: Digest) -> Compiler:
        return Compiler(self._look)


def limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(kind) for kind in KINDS]


def check(checker: GrammarChecker, digest: Digest = DIGESTS[0]) -> None:
    checker.check(CheckGrammarRequest(digest=digest, grammar=AN_OBJECT))


@pytest.mark.parametrize("fault", [None, UnusableGrammar("no")])
def test_a_grammar_is_confined_and_what_comes_behind_it_is_not(fault: Exception | None) -> None:
    seen: list[tuple[list[int], float]] = []

    def look() -> None:
        seen.append(([soft for soft, _ in limits()], signal.getitimer(signal.ITIMER_PROF)[0]))
        if fault is not None:
            raise fault

    checker, before = Checker(look), limits()
    checker.note(DIGESTS[0], Path("folder"))
    if fault is None:
        check(checker)
    else:
        with pytest.raises(InvalidRequest):
            check(checker)
    ((memory, stack, core), processor_s), *more = seen
    assert more == []
    assert 0 < memory < 2**40
    assert (stack, core) == (4 * 2**20, 0)
    assert 0 < processor_s < LIMITS.grammar_cpu_s + 1
    assert limits() == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_grammar_gets_no_more_than_the_process_may_have() -> None:
    """In a process of its own: what a limit was lowered to it stays."""
    least = 3 * 2**20

    def look() -> None:
        memory, stack, _ = (soft for soft, _ in limits())
        os._exit(0 if stack == least and memory < 2**40 else 1)

    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_STACK, (least, least))
            resource.setrlimit(resource.RLIMIT_AS, (2**42, 2**42))
            checker = Checker(look)
            checker.note(DIGESTS[0], Path("folder"))
            check(checker)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_tokenizer_that_was_used_longest_ago_is_dropped() -> None:
    checker = Checker(lambda: None)
    for digest in DIGESTS[:2]:
        checker.note(digest, Path(digest))
    check(checker, DIGESTS[0])
    checker.note(DIGESTS[2], Path(DIGESTS[2]))
    check(checker, DIGESTS[0])
    with pytest.raises(BundleMissing):
        check(checker, DIGESTS[1])


def test_a_dropped_tokenizer_leaves_nothing_behind(tiny_chat: Path) -> None:
    checker = GrammarChecker(LIMITS)
    for digest in DIGESTS:
        checker.note(digest, tiny_chat)
        check(checker, digest)
    assert list(checker._compilers) == DIGESTS[1:]
