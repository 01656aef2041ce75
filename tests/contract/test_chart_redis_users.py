"""Each role's user of the bundled Redis, on a real server: it can do its work and nothing beyond it."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conch_contracts.names import (
    CACHE_PREFIX,
    GATEWAYS_KEY,
    LOADS_KEY,
    META_KEY,
    RESPONSE_PREFIX,
    ROUTES_KEY,
    WAKES_KEY,
    ModelId,
    bundle_key,
    engines_key,
    workers_key,
)
from conch_contracts.records import GatewayLoad, Pool
from conch_kit.bundles.archive import digest
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError
from conch_kit.registry.heartbeat import GatewayBeatWriter, HeartbeatWriter
from conch_kit.registry.load_reader import LoadReader, OtherLoads
from conch_kit.registry.load_writer import LoadWriter
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.woken_models import WokenModels
from conch_kit.registry.writer import RegistryWriter
from testkit.builders.records import engine, listing, route
from testkit.kubernetes.chart import Rendered
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

DEFAULT_USER = "user default off resetkeys resetchannels -@all"
ONE = listing((route("chat"), (engine(1),)))
CHAT = ModelId("local/chat")
POOLS = {
    "tokenizer": Pool.TOKENIZER,
    "llm-worker": Pool.LLM,
    "embed-worker": Pool.EMBED,
    "speech-worker": Pool.SPEECH,
}
ROLES = ("gateway", *POOLS, "operator")


@dataclass(frozen=True, slots=True)
class Users:
    """A server that has the chart's users, and how each of them gets in."""

    server: RedisServer
    passwords: dict[str, str]

    def client(self, role: str) -> RedisClient:
        """Return a client that is one role."""
        return patient_redis(f"redis://{role}:{self.passwords[role]}@127.0.0.1:{self.server.port}/0")


@pytest.fixture(scope="module")
def users(plain: Rendered, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    data = plain.one("Secret", "conch-redis-users")["data"]
    secrets = {name: base64.b64decode(value).decode() for name, value in data.items()}
    rules = secrets.pop("users.acl")
    assert rules.splitlines()[0] == DEFAULT_USER
    file: Path = tmp_path_factory.mktemp("redis") / "users.acl"
    file.write_text(rules.replace(DEFAULT_USER, "user default on nopass ~* &* +@all"), encoding="utf-8")  # for the test
    with RedisServer("--aclfile", str(file)) as server:
        yield Users(server, secrets)


def test_every_role_has_a_password_of_its_own(users: Users) -> None:
    assert sorted(users.passwords) == sorted(ROLES)
    assert len(set(users.passwords.values())) == len(ROLES)


async def test_the_operator_publishes_and_keeps_bundles(users: Users) -> None:
    async with users.client("operator") as redis:
        bundle = b"a bundle"
        await BundleStore(redis).put(digest(bundle), bundle)
        assert await BundleStore(redis).has(digest(bundle))
        assert await RegistryWriter(redis).publish({}) < await RegistryWriter(redis).publish(ONE)
        assert await RegistryWriter(redis).gateways() == ()


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_reads_the_registry_and_hears_of_changes(users: Users, role: str) -> None:
    async with users.client("operator") as operator, users.client(role) as redis:
        writer = RegistryWriter(operator)
        await writer.publish(ONE)
        async with RegistryReader(redis, pools=tuple(Pool)) as reader:
            assert await reader.wait_loaded(5)
            assert CHAT in reader.snapshot.routes
            await writer.publish({})
            await eventually(lambda: not reader.snapshot.routes, "the change")


@pytest.mark.parametrize("role", POOLS)
async def test_a_worker_announces_itself_and_leaves(users: Users, role: str) -> None:
    async with users.client(role) as redis, users.client("gateway") as gateway:
        beats = HeartbeatWriter(redis, POOLS[role], "http://127.0.0.1:1", in_flight=lambda: 0, draining=lambda: False)
        async with beats, RegistryReader(gateway, pools=(POOLS[role],)) as reader:
            await eventually(lambda: bool(reader.snapshot.workers.get(POOLS[role])), "the heartbeat")
        assert await gateway.execute("HLEN", workers_key(POOLS[role])) == 0


async def test_the_operator_learns_what_a_gateway_has_seen(users: Users) -> None:
    async with users.client("gateway") as redis, users.client("operator") as operator:
        beats = GatewayBeatWriter(redis, "one", revision=lambda: 7)
        await beats.beat()
        assert [beat.revision for beat in await RegistryWriter(operator).gateways()] == [7]


async def test_gateways_and_the_operator_hear_what_a_gateway_has_to_do_and_nobody_else_says_it(users: Users) -> None:
    heard: dict[str, OtherLoads] = {}
    async with users.client("gateway") as redis, users.client("operator") as operator:
        async with (
            LoadReader(redis, "two", lambda said: heard.update(gateway=said)),
            LoadReader(operator, "nobody", lambda said: heard.update(operator=said)),
            LoadWriter(redis, "one", lambda sequence: GatewayLoad(id="one", sequence=sequence), beat_s=0.1) as writer,
        ):
            await eventually(lambda: all(said.loads for said in heard.values()) and len(heard) == 2, "the load")
            assert await writer.wake(CHAT, 60, clock=lambda: 1000.0) == 1060
        assert await operator.execute("HGET", WAKES_KEY, CHAT) == b"1060"
        assert await WokenModels(operator, lambda: 2000.0).read() == {}
        assert await operator.execute("HLEN", WAKES_KEY) == 0


async def test_the_gateway_keeps_answers_and_nobody_else_reads_them(users: Users) -> None:
    async with users.client("gateway") as redis:
        await redis.execute("SET", CACHE_PREFIX + "a", b"answer", "PX", 60_000)
        assert await redis.execute("GET", CACHE_PREFIX + "a") == b"answer"
        await redis.execute("SET", RESPONSE_PREFIX + "a", b"response", "PX", 60_000)
        assert await redis.execute("GET", RESPONSE_PREFIX + "a") == b"response"
        assert await redis.execute("DEL", RESPONSE_PREFIX + "a") == 1
        with pytest.raises(RegistryError, match="permission"):
            await redis.execute("SET", ROUTES_KEY, "x")
    for role in POOLS:
        async with users.client(role) as redis:
            with pytest.raises(RegistryError, match="permission"):
                await redis.execute("GET", CACHE_PREFIX + "a")
            with pytest.raises(RegistryError, match="permission"):
                await redis.execute("GET", RESPONSE_PREFIX + "a")


@pytest.mark.parametrize("role", [role for role in ROLES if role != "operator"])
@pytest.mark.parametrize(
    "command",
    [
        ("HSET", ROUTES_KEY, "local/chat", "{}"),
        ("HDEL", META_KEY, "epoch"),
        ("HSET", engines_key(CHAT), "127.0.0.1:1", "{}"),
        ("SET", bundle_key(digest(b"x")), "x"),
        ("EVAL", "return redis.call('HSET', KEYS[1], 'a', 'b')", 1, ROUTES_KEY),
        ("EVAL", "return redis.call('DEL', KEYS[1])", 1, META_KEY),
        ("DEL", ROUTES_KEY),
        ("GET", "another:key"),
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("PUBLISH", "another", "x"),
    ],
    ids=lambda command: " ".join(map(str, command))[:40],
)
async def test_a_role_cannot_do_what_is_the_operators(users: Users, role: str, command: tuple[str | int, ...]) -> None:
    async with users.client(role) as redis:
        with pytest.raises(RegistryError, match="permission"):
            await redis.execute(*command)


@pytest.mark.parametrize(
    ("role", "key"),
    [
        ("tokenizer", workers_key(Pool.LLM)),
        ("llm-worker", workers_key(Pool.TOKENIZER)),
        ("gateway", workers_key(Pool.LLM)),
        ("llm-worker", GATEWAYS_KEY),
        ("llm-worker", LOADS_KEY),
        ("llm-worker", WAKES_KEY),
    ],
)
async def test_a_role_cannot_speak_for_another(users: Users, role: str, key: str) -> None:
    async with users.client(role) as redis:
        with pytest.raises(RegistryError, match="permission"):
            await redis.execute("HSET", key, "field", "{}")
