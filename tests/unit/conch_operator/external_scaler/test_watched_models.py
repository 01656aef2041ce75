import grpc
import pytest

from conch_contracts.names import ModelId
from conch_operator.external_scaler.errors import CallRefused
from conch_operator.external_scaler.watched_models import WatchedModels
from testkit.kubernetes.keda import ListedModels

TINY = ModelId("ns/tiny")


@pytest.fixture
def listed() -> ListedModels:
    return ListedModels()


async def test_a_model_is_found_as_it_is_now_and_listed_once_a_change(listed: ListedModels) -> None:
    models = WatchedModels(listed, [None])
    listed.put(replicas=2)
    assert [(await models.find(TINY)).desired.replicas for _ in range(3)] == [2, 2, 2]
    assert listed.lists == 1
    listed.put(replicas=0)
    assert (await models.find(TINY)).desired.replicas == 0


async def test_a_model_is_ready_when_its_status_says_so_of_its_engine(listed: ListedModels) -> None:
    models = WatchedModels(listed, [None])
    listed.put()
    assert not (await models.find(TINY)).ready
    listed.says("tiny", "False")
    assert not (await models.find(TINY)).ready
    listed.says("tiny", "True")
    assert (await models.find(TINY)).ready


async def test_a_model_that_is_not_there_is_not_found(listed: ListedModels) -> None:
    models = WatchedModels(listed, [None])
    with pytest.raises(CallRefused, match="The namespace ns has no ModelDeployment tiny") as refused:
        await models.find(TINY)
    assert refused.value.code is grpc.StatusCode.NOT_FOUND


async def test_a_model_that_cannot_be_read_is_refused_with_the_cause(listed: ListedModels) -> None:
    models = WatchedModels(listed, [None])
    listed.put_raw("tiny", {"kind": "LLM"})
    with pytest.raises(CallRefused, match=r"The ModelDeployment ns/tiny cannot be read: .*source") as refused:
        await models.find(TINY)
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_what_was_known_counts_while_the_api_server_is_away(listed: ListedModels) -> None:
    models = WatchedModels(listed, [None])
    listed.away = True
    with pytest.raises(CallRefused, match="cannot be listed yet: nobody answers") as refused:
        await models.find(TINY)
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
    listed.away = False
    listed.put(replicas=3)
    assert (await models.find(TINY)).desired.replicas == 3
    listed.put(replicas=4)
    listed.away = True
    assert (await models.find(TINY)).desired.replicas == 3
    listed.away = False
    assert (await models.find(TINY)).desired.replicas == 4
