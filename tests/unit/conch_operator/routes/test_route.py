from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.names import Digest
from conch_contracts.records import Dialect, StreamUsage
from conch_operator.routes.route import external_engine, make_route, unused_defaults
from conch_operator.state import GenerationFacts, SourceFacts
from testkit.builders.model_deployments import FACTS, desired_model


@pytest.mark.parametrize(
    ("config", "spec", "length"),
    [(1024, None, 1024), (1024, 100, 100), (1024, 5000, 1024), (None, 300, 300), (None, None, 2048)],
)
def test_the_context_is_the_smaller_bound(config: int | None, spec: int | None, length: int) -> None:
    model = desired_model(generation={} if spec is None else {"maxLength": spec})
    route = make_route(model, replace(FACTS, max_position_embeddings=config), model.deployment.served_names)
    assert route.max_model_len == length


@pytest.mark.parametrize("engine", [{"vllm": {}}, {"tensorrtllm": {"backend": "pytorch"}}])
@pytest.mark.parametrize(("spec", "length"), [({}, 8192), ({"maxLength": 100}, 100), ({"maxLength": 9000}, 8192)])
def test_the_context_is_no_larger_than_its_engine_was_told(
    engine: dict[str, Any], spec: dict[str, int], length: int
) -> None:
    ((runtime, fields),) = engine.items()
    model = desired_model(
        engine={runtime: fields | {"maxModelLen": 8192}, "resources": {"limits": {"nvidia.com/gpu": 1}}},
        generation=spec,
    )
    route = make_route(model, replace(FACTS, max_position_embeddings=40960), model.deployment.served_names)
    assert route.max_model_len == length


def test_generation_settings_reach_the_route() -> None:
    model = desired_model(
        generation={
            "startId": -1,
            "endId": 9,
            "badWords": [[7768, 3908], [1, 2]],
            "stopWords": [[2]],
            "temperature": "0.5",
            "repetitionPenalty": "1.1",
            "maskPositions": 1,
        },
        routing={
            "queue": {"max": 3, "wait": "1s"},
            "timeout": "2m",
            "firstTokenTimeout": "40s",
            "interTokenTimeout": "7s",
        },
        default=True,
        streamUsage="final-chunk",
    )
    route = make_route(model, FACTS, model.deployment.served_names)
    assert route.generation.start_id is None
    assert route.generation.end_id == 9
    assert route.eos_token_ids == (9, 7)
    assert route.generation.bad_words == ((7768,), (3908,))
    assert route.generation.stop_words == ((2,),)
    assert (route.generation.temperature, route.generation.repetition_penalty) == (0.5, 1.1)
    assert route.generation.mask_positions == 1
    assert (route.routing.queue_max, route.routing.queue_wait_s, route.routing.timeout_s) == (3, 1.0, 120.0)
    assert (route.routing.first_token_timeout_s, route.routing.inter_token_timeout_s) == (40.0, 7.0)
    assert route.default
    assert route.stream_usage is StreamUsage.FINAL_CHUNK
    assert (route.dialect, route.vocab_size) == (Dialect.TOKENS, 100)


def test_what_the_deployment_says_about_sampling_wins_over_the_folder() -> None:
    folder = GenerationFacts((7,), 0.6, 0.95, 20, 0.1, 1.05)
    facts = replace(FACTS, generation=folder)
    plain = desired_model()
    told = make_route(plain, facts, plain.deployment.served_names).generation
    assert (told.temperature, told.top_p, told.top_k, told.min_p, told.repetition_penalty) == (0.6, 0.95, 20, 0.1, 1.05)
    said = {"temperature": "1", "topP": "1", "topK": 0, "minP": "0", "repetitionPenalty": "1"}
    model = desired_model(generation=said)
    told = make_route(model, facts, model.deployment.served_names).generation
    assert (told.temperature, told.top_p, told.top_k, told.min_p, told.repetition_penalty) == (1, 1, 0, 0, 1)


@pytest.mark.parametrize(
    ("dialect", "said", "min_p", "unused"),
    [
        ("tokens", {}, 0.1, ()),
        ("vllm", {}, 0.1, ()),
        ("fastertransformer", {}, None, ("min_p",)),
        ("tensorrtllm", {}, None, ("min_p",)),
        ("tensorrtllm", {"minP": "0"}, 0, ()),
    ],
)
def test_what_the_folder_says_and_the_engine_cannot_obey_is_left_out(
    dialect: str, said: dict[str, str], min_p: float | None, unused: tuple[str, ...]
) -> None:
    external = {"grpc": "triton.example.com:8001", "dialect": dialect}
    model = desired_model(engine={"external": external}, generation=said)
    facts = replace(FACTS, generation=GenerationFacts(min_p=0.1, top_k=20))
    told = make_route(model, facts, model.deployment.served_names).generation
    assert (told.min_p, told.top_k) == (min_p, 20)
    assert unused_defaults(model, facts) == unused
    silent = replace(FACTS, generation=GenerationFacts(min_p=0.0))
    assert unused_defaults(model, silent) == ()


@pytest.mark.parametrize(
    ("fields", "told"),
    [({}, None), ({"backend": "pytorch"}, None), ({"backend": "pytorch", "textOutput": "Delta"}, "Delta")],
)
def test_what_messages_of_text_hold_is_for_the_author_to_say(fields: dict[str, str], told: str | None) -> None:
    model = desired_model(engine={"tensorrtllm": fields, "resources": {"limits": {"nvidia.com/gpu": 1}}})
    assert make_route(model, FACTS, model.deployment.served_names).text_output == told


def test_the_fingerprint_changes_with_what_shapes_answers_and_with_nothing_else() -> None:
    def fingerprint(facts: SourceFacts = FACTS, **spec: Any) -> str | None:
        model = desired_model(**spec)
        return make_route(model, facts, model.deployment.served_names).fingerprint

    first = fingerprint()
    assert first == fingerprint(replicas=3, routing={"timeout": "2m"}, servedNames=["x"])
    assert first != fingerprint(engine={"cpu": {"quantization": "int8"}})
    assert first != fingerprint(replace(FACTS, digest=Digest("e" * 64)))
    assert first != fingerprint(generation={"temperature": "0.5"})
    assert first != fingerprint(tokenizer={"contentFormat": "string"})


def test_an_engine_of_somebody_else_is_known_by_the_namespace_that_names_it() -> None:
    model = desired_model(engine={"external": {"grpc": "triton.example.com:8001", "dialect": "tokens"}})
    external = model.deployment.spec.engine.external
    assert external is not None
    assert external_engine(model, external).named_in == "local"
