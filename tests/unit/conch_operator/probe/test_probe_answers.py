"""What is made of each way in which an engine answers a request of one token, and what it is asked within."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.addresses.rules import AddressRules
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses
from conch_kit.triton.client import RepositoryEntry
from conch_kit.triton.encoder_tensors import UnknownTensors
from conch_kit.triton.errors import (
    EngineError,
    EngineFull,
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
)
from conch_kit.triton.http_client import TritonHttp
from conch_kit.triton.message_limits import MAX_PROBE_BYTES
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient, bounded_client
from testkit.engines.listening_triton import ListeningTriton

TOKENS = Target(EngineAddress("127.0.0.1:8001"), "tiny", Dialect.TOKENS)
ENCODER = Target(EngineAddress("127.0.0.1:8001"), "tiny", Dialect.ENCODER)


class Server(ListeningTriton):
    """Ends a stream at once, or with a failure, and names its models if it is a server of them."""

    def __init__(self, failure: Exception | None, *, serves: bool = True) -> None:
        super().__init__()
        self._failure, self._serves = failure, serves
        self.waits: dict[str, float] = {}

    async def stream(self, address: Any, request: Any, **waits: Any) -> AsyncIterator[Any]:
        self.waits = waits
        if self._failure is not None:
            raise self._failure
        return
        yield

    async def model_config(self, *given: object, **times: float) -> Any:
        raise self._failure or UnknownTensors("no input is known")

    async def repository_index(self, *given: object, **times: float) -> list[RepositoryEntry]:
        if not self._serves:
            raise EngineUnavailable("refused")
        return [RepositoryEntry("tiny", "1", "READY", "")]


def asking(server: Server, addresses: CheckedAddresses = NO_RULES) -> TritonProbeClient:
    return TritonProbeClient(server, TritonHttp(), 3.0, addresses=addresses)


async def test_one_token_has_the_time_of_one_answer_and_its_end_as_much_again() -> None:
    server = Server(None)
    await asking(server).probe(TOKENS)
    assert server.waits == {"first_timeout_s": 3.0, "inter_timeout_s": 3.0, "timeout_s": 6.0}


async def test_an_encoder_is_not_said_to_owe_a_token() -> None:
    with pytest.raises(NoAnswer, match=r"No answer in time to a request of one row\."):
        await asking(Server(EngineTimeout("late", first=True))).probe(replace(TOKENS, dialect=Dialect.ENCODER))


@pytest.mark.parametrize(
    ("failure", "says", "silent", "busy"),
    [
        (EngineTimeout("late", first=True), "No token within 3 s", True, False),
        (EngineFull("queue"), "too much waits inside it: queue", False, True),
        (EngineLost("cut"), "A one-token request failed: cut", False, False),
        (MalformedResponse("no numbers"), "A one-token request failed: no numbers", False, False),
        (EngineRejected("no memory"), "no memory", False, False),
    ],
)
async def test_a_failure_has_its_words(failure: EngineError, says: str, silent: bool, busy: bool) -> None:
    with pytest.raises(NoAnswer, match=says) as caught:
        await asking(Server(failure)).probe(TOKENS)
    found = caught.value
    assert (found.reason, found.silent, found.busy) == (Reason.ENGINE_PROBE_FAILED, silent, busy)


async def test_a_model_with_other_tensors_is_told_so() -> None:
    with pytest.raises(NoAnswer, match="no input is known") as caught:
        await asking(Server(None)).probe(ENCODER)
    assert caught.value.reason is Reason.ENGINE_PROBE_FAILED


class Starting(Server):
    """Does not listen yet; gRPC would not dial it again for up to a second if it were asked."""

    async def reach(self, *given: object, **times: float) -> None:
        raise EngineUnavailable("refused")

    async def stream(self, *given: object, **waits: Any) -> AsyncIterator[Any]:
        raise AssertionError("It was asked.")
        yield

    async def model_config(self, *given: object, **times: float) -> Any:
        raise AssertionError("It was asked.")


@pytest.mark.parametrize("target", [TOKENS, ENCODER], ids=["stream", "config"])
async def test_an_engine_that_does_not_listen_yet_is_asked_nothing(target: Target) -> None:
    with pytest.raises(NoAnswer, match=r"Nothing answers at 127\.0\.0\.1:8001: refused") as caught:
        await asking(Starting(None)).probe(target)
    assert caught.value.reason is Reason.ENGINE_UNREACHABLE


@pytest.mark.parametrize("serves", [True, False])
async def test_who_names_an_address_hears_a_cause_from_a_server_of_models_alone(serves: bool) -> None:
    rules = CheckedAddresses(AddressRules(allowed=("127.0.0.0/8",)))
    target = Target(TOKENS.address, "tiny", Dialect.TOKENS, named_in="team")
    with pytest.raises(NoAnswer) as caught:
        await asking(Server(EngineTimeout("late", first=True), serves=serves), rules).probe(target)
    assert caught.value.silent
    assert caught.value.reason is (Reason.ENGINE_PROBE_FAILED if serves else Reason.ENGINE_UNREACHABLE)
    assert ("No server of models" in str(caught.value)) is not serves


class Page(TritonHttp):
    """A server of pages, not of models."""

    async def model_config(self, *given: object) -> Any:
        raise MalformedResponse("The engine's answer is no JSON.")

    async def check_protocol(self, *given: object) -> None:
        raise MalformedResponse("What answers is no server of the KServe protocol.")


async def test_who_names_a_server_of_pages_hears_nothing_of_its_answers() -> None:
    rules = CheckedAddresses(AddressRules(allowed=("127.0.0.0/8",)))
    probing = TritonProbeClient(Server(None), Page(), 3.0, addresses=rules)
    with pytest.raises(NoAnswer, match="No server of models that may be used answers"):
        await probing.probe(Target(EngineAddress("http://127.0.0.1:8000"), "tiny", Dialect.ENCODER, named_in="team"))


async def test_an_address_that_may_not_be_named_is_not_asked() -> None:
    server = Server(None)
    with pytest.raises(NoAnswer, match="No server of models that may be used"):
        await asking(server, CheckedAddresses(AddressRules())).probe(
            Target(EngineAddress("127.0.0.1:1"), "tiny", Dialect.TOKENS, named_in="team")
        )
    assert server.waits == {}


def test_an_answer_may_be_as_long_as_one_to_a_probe() -> None:
    assert bounded_client()._most_bytes == MAX_PROBE_BYTES
