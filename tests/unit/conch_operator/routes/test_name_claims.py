from dataclasses import replace

from conch_contracts.names import ModelId, ServedName
from conch_operator.routes.name_claims import claim_names, claims_of, names_gone
from conch_operator.state import Desired, Observed
from testkit.builders.model_deployments import desired_model
from testkit.builders.records import route


def test_row_9_the_oldest_model_keeps_a_served_name() -> None:
    young = desired_model("young", 5, servedNames=["chat", "young"])
    old = desired_model("old", 1, servedNames=["old", "chat"])
    claims = claim_names(Desired((young, old)))
    assert claims[old.id].kept == ("old", "chat")
    assert claims[young.id].kept == ("young",)
    assert claims[young.id].lost == {"chat": old.id}


def test_of_equally_old_models_the_smaller_id_wins() -> None:
    first, second = desired_model("a", servedNames=["chat"]), desired_model("b", servedNames=["chat"])
    claims = claim_names(Desired((second, first)))
    assert (claims[first.id].kept, claims[second.id].kept) == (("chat",), ())


def test_the_oldest_of_a_kind_is_its_default() -> None:
    old, young, other = (
        desired_model("old", 1, default=True),
        desired_model("young", 5, default=True),
        desired_model("x"),
    )
    claims = claim_names(Desired((young, old, other)))
    assert [claims[model.id].other_default for model in (old, young, other)] == [None, old.id, None]


def test_each_kind_has_a_default_of_its_own() -> None:
    chat = desired_model("chat", 1, default=True)
    vectors = desired_model("vectors", 2, default=True, kind="Embedding")
    assert claim_names(Desired((chat, vectors)))[vectors.id].other_default is None


CHAT = ServedName("chat")


def test_a_name_that_is_served_stays_with_its_model_although_an_older_one_wants_it_now() -> None:
    old, young = desired_model("old", 1, servedNames=["chat"]), desired_model("young", 5, servedNames=["chat"])
    served = Observed(routes={young.id: route("young", served=("chat",))})
    claims = claims_of(Desired((old, young)), served)
    assert (claims[old.id].lost, claims[young.id].kept) == ({CHAT: young.id}, (CHAT,))


def test_a_name_that_its_model_gives_up_is_free() -> None:
    old, young = desired_model("old", 1, servedNames=["chat"]), desired_model("young", 5, servedNames=["other"])
    served = Observed(routes={young.id: route("young", served=("chat",))})
    assert claims_of(Desired((old, young)), served)[old.id].kept == (CHAT,)


def test_a_model_that_is_made_again_finds_its_name_and_no_waiting_one_inherits_it() -> None:
    waiting, again = desired_model("waiting", 1, servedNames=["chat"]), desired_model("model", 9, servedNames=["chat"])
    reserved = Observed(reserved={CHAT: again.id})
    claim = claims_of(Desired((waiting,)), reserved)[waiting.id]
    assert claim.lost == {CHAT: again.id}
    assert claim.lost_names() == f"{CHAT} (kept for {again.id} for a minute, since that was just deleted)"
    assert claims_of(Desired((waiting, again)), reserved)[again.id].kept == (CHAT,)
    assert claims_of(Desired((waiting,)), Observed())[waiting.id].kept == (CHAT,)


def test_the_names_of_a_model_that_has_gone_are_those_that_are_still_served() -> None:
    there, gone = desired_model("there"), ModelId("local/gone")
    routes = {there.id: route("there"), gone: route("gone", served=("chat",))}
    assert names_gone(Desired((there,)), routes) == {CHAT: gone}


def test_with_namespaced_names_nobody_takes_those_of_another_namespace() -> None:
    mine, theirs = (
        desired_model("a", servedNames=["local/chat", "x"]),
        desired_model("b", 5, servedNames=["local/chat", "x"]),
    )
    meta = theirs.deployment.metadata.model_copy(update={"namespace": "other"})
    theirs = replace(theirs, deployment=theirs.deployment.model_copy(update={"metadata": meta}))
    claims = claim_names(Desired((mine, theirs), namespaced=True))
    assert claims[mine.id].kept == ("local/chat", "local/x")
    assert claims[theirs.id].kept == ("other/local/chat", "other/x")
