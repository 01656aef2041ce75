import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.placement.model_queue import slots, slots_for


@pytest.mark.parametrize(("said", "taken"), [(64, 64), (1, 1), (0, 1), (-3, 1)])
def test_an_engine_works_on_something_whatever_its_record_says(said: int, taken: int) -> None:
    engine = Engine(grpc=EngineAddress("a:1"), slots=said)
    assert slots(engine) == taken
    assert slots_for(engine, 100) == taken
