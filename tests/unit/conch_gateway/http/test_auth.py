import asyncio

import pytest

from conch_gateway.http.auth import MAX_HEADER_BYTES, ApiKeys, owner_of, parse_keys
from conch_kit.settings import SettingsError
from testkit.gateway.fakes import gateway
from testkit.waiting import eventually

LONG = "x" * (MAX_HEADER_BYTES - 6)
KEYS = parse_keys("# comment\n\nsk-plain\nann:sk-a\nbob   sk-b\n  carol: sk-c  \n")


@pytest.mark.parametrize(("key", "name"), [("sk-plain", "key-3"), ("sk-a", "ann"), ("sk-b", "bob"), ("sk-c", "carol")])
def test_every_form_of_a_line_names_its_key(key, name):
    assert KEYS.name_of(key.encode()) == name


@pytest.mark.parametrize("key", ["", "sk-", "sk-a ", "sk-ask-a", "sk-a\0", "ann", "# comment"])
def test_what_is_nearly_a_key_is_none(key):
    assert KEYS.name_of(key.encode()) is None


@pytest.mark.parametrize(
    ("values", "status"),
    [
        pytest.param(["Bearer sk-a"], 200, id="one"),
        pytest.param(["Bearer sk-a", "Bearer x"], 401, id="the wrong one last"),
        pytest.param(["Bearer x", "Bearer sk-a"], 401, id="the right one last"),
        pytest.param(["Bearer sk-a", "Bearer sk-a"], 401, id="the same twice"),
        pytest.param([f"Bearer {LONG[: MAX_HEADER_BYTES - 7]}"], 200, id="the longest"),
        pytest.param([f"Bearer {LONG}"], 401, id="too long a one"),
    ],
)
async def test_a_request_has_one_key_of_a_bounded_length_or_none(tmp_path, values, status):
    (tmp_path / "keys").write_text(f"ann:sk-a\nbob:{LONG}\ncarol:{LONG[: MAX_HEADER_BYTES - 7]}\n")
    keys = ApiKeys(tmp_path / "keys")
    await keys.load()
    headers = [(b"authorization", value.encode()) for value in values]
    assert (await gateway(keys=keys).client.get("/v1/models", headers)).status == status


@pytest.mark.parametrize(("key", "status"), [("x" * MAX_HEADER_BYTES, 200), ("x" * (MAX_HEADER_BYTES + 1), 401)])
async def test_a_plain_key_has_the_same_bound(tmp_path, key, status):
    (tmp_path / "keys").write_text(f"bob:{key}\n")
    keys = ApiKeys(tmp_path / "keys")
    await keys.load()
    assert (await gateway(keys=keys).client.get("/v1/models", [(b"x-api-key", key.encode())])).status == status


async def test_that_nobody_needs_a_key_is_in_the_log_and_nothing_is_read(caplog):
    caplog.set_level("INFO")
    keys = ApiKeys(None)
    await keys.load()
    assert [record.getMessage() for record in caplog.records] == [
        "No file of API keys is set: every request is allowed."
    ]
    await asyncio.wait_for(keys.follow(), 30)
    assert (await gateway(keys=keys).client.get("/v1/models")).status == 200


async def test_the_keys_stay_while_their_file_cannot_be_read_and_change_when_it_is_back(tmp_path, caplog):
    caplog.set_level("INFO")
    file, newer = tmp_path / "keys", tmp_path / "newer"
    file.write_text("ann:sk-a\n")
    newer.write_text("bob:sk-b\n")
    keys = ApiKeys(file)
    await keys.load()
    client = gateway(keys=keys).client

    async def statuses():
        given = [[(b"authorization", b"Bearer " + key)] for key in (b"sk-a", b"sk-b")]
        return [(await client.get("/v1/models", headers)).status for headers in given]

    file.unlink()
    following = asyncio.create_task(keys.follow(interval_s=0.001))
    await eventually(lambda: "its last keys stay" in caplog.text, "a word about the file")
    assert await statuses() == [200, 401]
    newer.rename(file)
    await eventually(lambda: caplog.text.count("API keys read.") == 2, "the file's return")
    assert await statuses() == [401, 200]
    following.cancel()


def test_whose_things_a_request_may_see_is_told_by_its_key_wherever_that_stands():
    bearer = owner_of("ann", {b"authorization": b"Bearer sk-a"})
    assert owner_of("ann", {b"x-api-key": b"sk-a"}) == bearer
    assert owner_of("bob", {b"x-api-key": b"sk-b"}) not in (bearer, "all")
    assert owner_of(None, {b"x-api-key": b"sk-a"}) == "all"


async def test_a_file_of_keys_that_cannot_be_read_keeps_the_gateway_from_its_start(tmp_path):
    with pytest.raises(SettingsError, match=f"Expected a readable file of API keys at {tmp_path}/keys: No such file"):
        await ApiKeys(tmp_path / "keys").load()
