"""A parameter that a dialect does not send is refused by name, also one that came after it was written."""

import pytest

from conch_contracts.generation import SamplingParameters
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest
from conch_llm_worker.dialects.refusals import refuse
from testkit.generate_requests import generate_request, sampling, target


class Newer(SamplingParameters):
    novelty: str | None = None


@pytest.mark.parametrize("dialect", [Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM, Dialect.VLLM])
def test_a_parameter_that_nobody_sends_yet_is_refused(dialect: Dialect) -> None:
    request = generate_request(target=target(dialect))
    refuse(request, sampling(seed=1, top_p=0.5))
    refuse(request, Newer(max_tokens=1))
    with pytest.raises(InvalidRequest) as refusal:
        refuse(request, Newer(max_tokens=1, novelty="yes"))
    assert (refusal.value.param, refusal.value.code) == ("novelty", "unsupported_parameter")


def test_our_own_dialect_sends_all_that_there_is() -> None:
    refuse(generate_request(), Newer(max_tokens=1, novelty="yes"))
