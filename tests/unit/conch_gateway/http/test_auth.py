import pytest

from conch_gateway.http.auth import parse_keys

KEYS = parse_keys("# comment\n\nsk-plain\nann:sk-a\nbob   sk-b\n  carol: sk-c  \n")


@pytest.mark.parametrize(("key", "name"), [("sk-plain", "key-3"), ("sk-a", "ann"), ("sk-b", "bob"), ("sk-c", "carol")])
def test_every_form_of_a_line_names_its_key(key, name):
    assert KEYS.name_of(key.encode()) == name


@pytest.mark.parametrize("key", ["", "sk-", "sk-a ", "sk-ask-a", "sk-a\0", "ann", "# comment"])
def test_what_is_nearly_a_key_is_none(key):
    assert KEYS.name_of(key.encode()) is None
