from conch_operator.routes.name_claims import claim_names
from testkit.builders.model_deployments import desired_model


def test_row_9_the_oldest_model_keeps_a_served_name() -> None:
    young = desired_model("young", 5, servedNames=["chat", "young"])
    old = desired_model("old", 1, servedNames=["old", "chat"])
    claims = claim_names([young, old])
    assert claims[old.id].kept == ("old", "chat")
    assert claims[young.id].kept == ("young",)
    assert claims[young.id].lost == {"chat": old.id}


def test_of_equally_old_models_the_smaller_id_wins() -> None:
    first, second = desired_model("a", servedNames=["chat"]), desired_model("b", servedNames=["chat"])
    claims = claim_names([second, first])
    assert (claims[first.id].kept, claims[second.id].kept) == (("chat",), ())


def test_the_oldest_of_a_kind_is_its_default() -> None:
    old, young, other = (
        desired_model("old", 1, default=True),
        desired_model("young", 5, default=True),
        desired_model("x"),
    )
    claims = claim_names([young, old, other])
    assert [claims[model.id].other_default for model in (old, young, other)] == [None, old.id, None]


def test_each_kind_has_a_default_of_its_own() -> None:
    chat = desired_model("chat", 1, default=True)
    vectors = desired_model("vectors", 2, default=True, kind="Embedding")
    assert claim_names([chat, vectors])[vectors.id].other_default is None
