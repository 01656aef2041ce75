from conch_gateway.app import process
from conch_gateway.settings import GatewaySettings


def test_commands_to_redis_have_the_time_of_the_settings() -> None:
    client = process._redis(GatewaySettings(redis_url="redis://unused", redis_timeout_s=0.07))
    assert client._timeout_s == 0.07
    assert client._connect()._connect_timeout_s == 0.07
