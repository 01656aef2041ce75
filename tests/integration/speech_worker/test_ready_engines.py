"""Which engines may go on with a file, as a real registry has them."""

from collections.abc import AsyncIterator

import pytest

from conch_contracts.messages.message import changed
from conch_contracts.names import ROUTES_KEY, EngineAddress, ModelId, engines_key
from conch_contracts.records import Dialect, Engine, Route, SpeechProfile
from conch_kit.addresses.rules import AddressRules
from conch_kit.redis.client import RedisClient
from conch_kit.registry.writer import RegistryWriter
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses
from conch_kit.triton.errors import EngineUnavailable
from conch_speech_worker.engine.ready_engines import ReadyEngines
from testkit.builders import records
from testkit.builders.transcriptions import transcribe_request
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer

EAR = ModelId("local/ear")
TARGET = changed(transcribe_request().target, model_id=EAR, grpc=EngineAddress("127.0.0.1:1"))
OWN, NEW = Engine(grpc=TARGET.grpc, model="tones"), Engine(grpc=EngineAddress("127.0.0.1:2"), model="tones-2")


def route(**changes: object) -> Route:
    """Return the route of the model of `TARGET`."""
    speech = SpeechProfile(languages=("en", "de"))
    same = {"dialect": Dialect.SPEECH, "engine_model": "routed", "max_model_len": TARGET.context, "speech": speech}
    return records.route("ear").model_copy(update=same | changes)


@pytest.fixture
async def redis() -> AsyncIterator[RedisClient]:
    with RedisServer() as server:
        async with patient_redis(server.url) as client:
            yield client


async def another(redis: RedisClient, *engines: Engine, **changes: object) -> object:
    await RegistryWriter(redis).publish({EAR: (route(**changes), engines)})
    return await ReadyEngines(redis, NO_RULES).another(TARGET, {OWN.grpc})


async def test_it_is_one_that_the_registry_names_under_its_own_name_for_the_model(redis: RedisClient) -> None:
    assert await another(redis, OWN) is None
    assert await another(redis, OWN, NEW) == changed(TARGET, grpc=NEW.grpc, model="tones-2")
    unnamed = NEW.model_copy(update={"model": None, "named_in": "team"})
    assert await another(redis, OWN, unnamed) == changed(TARGET, grpc=NEW.grpc, model="routed", named_in="team")


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer_digest": "1" * 64},
        {"dialect": Dialect.WHISPER_BLS},
        {"max_model_len": 63},
        {"speech": SpeechProfile()},
    ],
)
async def test_an_engine_of_a_model_with_other_ids_cannot_go_on(redis: RedisClient, changes: dict[str, object]) -> None:
    assert await another(redis, OWN, NEW, **changes) is None


async def test_where_the_registry_does_not_tell_there_is_none(redis: RedisClient) -> None:
    await another(redis, OWN, NEW)
    ready = ReadyEngines(redis, NO_RULES)
    for unknown in (changed(TARGET, model_id=None), changed(TARGET, model_id=ModelId("local/other"))):
        assert await ready.another(unknown, {OWN.grpc}) is None
    await redis.execute("HSET", engines_key(EAR), NEW.grpc, "no record")
    assert await ready.another(TARGET, {OWN.grpc}) is None
    await redis.execute("HSET", ROUTES_KEY, EAR, "no record")
    assert await ready.another(TARGET, set()) is None
    async with RedisClient("redis://127.0.0.1:1/0") as away:
        assert await ReadyEngines(away, NO_RULES).another(TARGET, set()) is None


async def test_an_address_that_somebody_named_is_checked_before_it_is_dialled(redis: RedisClient) -> None:
    ready = ReadyEngines(redis, CheckedAddresses(AddressRules(allowed=("10.0.0.0/8",))))
    assert await ready.dialled(TARGET) == TARGET
    named = changed(TARGET, named_in="team", grpc=EngineAddress("10.0.0.1:1"))
    assert (await ready.dialled(named)).grpc == "ipv4:10.0.0.1:1#10.0.0.1:1"
    with pytest.raises(EngineUnavailable):
        await ready.dialled(changed(TARGET, named_in="team"))
