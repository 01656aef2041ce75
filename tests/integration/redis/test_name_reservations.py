"""Names of deleted models on a real server."""

from conch_contracts.names import RESERVED_KEY, ModelId, ServedName
from conch_kit.redis.client import RedisClient
from conch_kit.registry.name_reservations import RESERVED_S, NameReservations

CHAT, OWNER, OTHER = ServedName("chat"), ModelId("team/chat"), ModelId("other/chat")


async def test_a_name_stays_reserved_for_a_while_and_over_a_restart_of_the_operator(client: RedisClient) -> None:
    now = 1_000_000.0
    assert await NameReservations(client, lambda: now).renew({CHAT: OWNER}, {}) == {CHAT: OWNER}
    restarted = NameReservations(client, lambda: now)
    assert await restarted.renew({}, {}) == {CHAT: OWNER}
    now += RESERVED_S - 1
    assert await restarted.renew({CHAT: OTHER}, {}) == {CHAT: OWNER}
    now += 2
    assert await restarted.renew({}, {}) == {}
    assert await client.execute("HLEN", RESERVED_KEY) == 0


async def test_what_cannot_be_read_is_no_reservation(client: RedisClient) -> None:
    for value in (b"", b"soon team/chat", b"99999999999 team/chat", b"\xff"):
        await client.execute("HSET", RESERVED_KEY, "chat", value)
        assert await NameReservations(client).renew({}, {}) == {}


async def test_a_model_that_is_back_keeps_its_name_for_as_long_as_it_loads(client: RedisClient) -> None:
    now = 1_000_000.0
    reservations = NameReservations(client, lambda: now)
    await reservations.renew({CHAT: OWNER}, {})
    for _ in range(5):
        now += RESERVED_S * 0.7
        assert await reservations.renew({}, {OWNER: {CHAT}, OTHER: {CHAT}}) == {CHAT: OWNER}
    assert await reservations.renew({}, {OWNER: frozenset()}) == {}
    assert await client.execute("HLEN", RESERVED_KEY) == 0
