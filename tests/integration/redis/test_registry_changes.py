"""What readers fetch when the list has changed: the changed models alone, and never less than that."""

import random

import pytest

from conch_contracts.names import CHANGED_KEY, META_KEY, ROUTES_KEY, ModelId, engines_key
from conch_kit.redis.client import RedisClient
from conch_kit.registry.read_reply import RawChanges, RawList, interpret
from conch_kit.registry.scripts import NOTED_REVISIONS, READ
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import RegistryWriter
from testkit.builders.records import engine, listing, route

MANY = [(route(f"model-{number}"), (engine(number),)) for number in range(50)]


async def read_since(client: RedisClient, epoch: str, revision: int) -> object:
    """Return what a reader gets that has this revision."""
    keys = (META_KEY, ROUTES_KEY, CHANGED_KEY)
    return interpret(await client.execute("EVAL", READ, 3, *keys, engines_key(ModelId("")), epoch, revision))


async def test_a_change_brings_the_changed_models_alone(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    first = await writer.publish(listing(*MANY))
    async with RegistryReader(client) as reader:
        await reader.wait_loaded(30)
        epoch = reader.snapshot.epoch
    second = await writer.publish(listing(*MANY[1:-1], (MANY[-1][0], (engine(99),))))
    changes = await read_since(client, epoch, first)
    assert isinstance(changes, RawChanges)
    assert [item.model for item in changes.models] == [b"local/model-49"]
    assert (changes.gone, changes.count, changes.revision) == ((b"local/model-0",), 49, second)


async def test_a_reader_that_is_far_behind_gets_the_whole_list(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    first = await writer.publish(listing(*MANY[:2]))
    async with RegistryReader(client) as reader:
        await reader.wait_loaded(30)
        epoch = reader.snapshot.epoch
    await client.execute("HINCRBY", META_KEY, "revision", NOTED_REVISIONS)
    await client.execute("HINCRBY", META_KEY, "noted", NOTED_REVISIONS)
    for number in (7, 8):
        await writer.publish(listing((MANY[0][0], (engine(number),)), MANY[1]))
    assert isinstance(await read_since(client, epoch, first), RawList)
    assert isinstance(await read_since(client, epoch, first + NOTED_REVISIONS + 1), RawChanges)


@pytest.mark.parametrize("seed", range(4))
async def test_a_reader_of_changes_knows_what_a_reader_of_all_knows(client: RedisClient, seed: int) -> None:
    """Also when the list is written by a version that notes no changes, and when the notes are lost or damaged."""
    chance, writer = random.Random(seed), RegistryWriter(client)
    models = dict(listing(*MANY[:6]))
    await writer.publish(models)
    async with RegistryReader(client, relist_s=3600) as reader:
        await reader.wait_loaded(30)
        for step in range(60):
            for _ in range(chance.randint(1, 3)):
                one, engines = chance.choice(MANY[:12])
                if one.model_id in models and chance.random() < 0.4:
                    del models[one.model_id]
                else:
                    models[one.model_id] = (one, (*engines, engine(chance.randint(100, 104))))
            await writer.publish(models)
            match chance.randrange(8):
                case 0:
                    await client.execute("DEL", CHANGED_KEY)
                case 1:
                    await client.execute("SET", CHANGED_KEY, "garbage")
                case 2 if models:  # an older version's change
                    model = chance.choice(list(models))
                    models[model] = (models[model][0], (*models[model][1], engine(99)))
                    await client.execute("HSET", engines_key(model), engine(99).grpc, engine(99).model_dump_json())
                    await client.execute("HINCRBY", META_KEY, "revision", 1)
            if chance.random() < 0.6:
                continue
            await reader.refresh()
            async with RegistryReader(client) as other:
                await other.wait_loaded(30)
                assert reader.snapshot == other.snapshot, step
                assert dict(reader.snapshot.routes) == {model: pair[0] for model, pair in models.items()}
