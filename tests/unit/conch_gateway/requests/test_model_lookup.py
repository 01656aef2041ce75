from dataclasses import replace

import pytest

from conch_contracts.records import ModelKind, Profile
from conch_gateway.requests.model_lookup import canonical_name, find_route
from conch_kit.errors import InvalidRequest, ModelNotFound, Unavailable
from conch_kit.registry.read_reply import RawModel
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import route, snapshot

CHAT, OTHER = route(served_names=("chat", "alias")), route(model_id="local/b", served_names=("b",))
EMBED = route(model_id="local/e", served_names=("embed",), kind=ModelKind.EMBEDDING)
FASTDEPLOY = route(model_id="local/f", served_names=("f",), profile=Profile.FASTDEPLOY)
DEFAULT = route(model_id="local/d", served_names=("d",), default=True)
UNKNOWN = {OTHER.model_id: RawModel(b"local/b", b"null", {})}
LATER = route(model_id="local/a", served_names=("a",), default=True, created=DEFAULT.created + 1)


@pytest.mark.parametrize(
    ("known", "name", "expected"),
    [
        (snapshot(CHAT, OTHER), "alias", CHAT),
        (snapshot(CHAT, EMBED), None, CHAT),
        (snapshot(CHAT, EMBED), "default", CHAT),
        (snapshot(CHAT, DEFAULT), "", DEFAULT),
        (snapshot(DEFAULT, LATER), None, DEFAULT),
        (snapshot(LATER, DEFAULT), None, DEFAULT),
        (snapshot(FASTDEPLOY, EMBED), "null", FASTDEPLOY),
    ],
)
def test_a_name_becomes_its_route(known, name, expected):
    assert find_route(known, name, kinds=(ModelKind.LLM,)) == expected


@pytest.mark.parametrize(
    ("known", "name", "error"),
    [
        (replace(Snapshot.EMPTY, read=UNKNOWN), "b", Unavailable),
        (replace(Snapshot.EMPTY, read=UNKNOWN), "its served name, say", Unavailable),
        (replace(snapshot(CHAT), read=UNKNOWN), "b", Unavailable),
        (replace(snapshot(CHAT), read=UNKNOWN), "nope", ModelNotFound),
        (Snapshot.EMPTY, "b", ModelNotFound),
        (snapshot(CHAT), "nope", ModelNotFound),
        (snapshot(CHAT), "null", ModelNotFound),
        (snapshot(CHAT, FASTDEPLOY), "null", ModelNotFound),
        (snapshot(CHAT, EMBED), "embed", InvalidRequest),
        (snapshot(CHAT, OTHER), None, InvalidRequest),
        (snapshot(EMBED), None, ModelNotFound),
        (Snapshot.EMPTY, None, Unavailable),
        (Snapshot.EMPTY, "chat", ModelNotFound),
    ],
)
def test_a_name_that_means_nothing_is_an_error(known, name, error):
    with pytest.raises(error):
        find_route(known, name, kinds=(ModelKind.LLM,))


def test_the_first_kind_that_has_a_model_answers_requests_without_a_name():
    every = tuple(ModelKind)
    assert find_route(snapshot(EMBED, CHAT), None, kinds=every) == CHAT
    assert find_route(snapshot(EMBED, CHAT), None, kinds=(ModelKind.RERANK, ModelKind.EMBEDDING)) == EMBED


def test_a_model_of_the_wrong_kind_is_told_which_kinds_would_do():
    with pytest.raises(InvalidRequest, match=r"of kind LLM.*Rerank and Embedding would do"):
        find_route(snapshot(CHAT), "chat", kinds=(ModelKind.RERANK, ModelKind.EMBEDDING))


def test_the_answer_carries_the_name_that_was_asked_for():
    assert [canonical_name(CHAT, name) for name in ("alias", None, "default")] == ["alias", "chat", "chat"]
