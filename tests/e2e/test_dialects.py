"""`conch up` with engines of every dialect that someone else runs, asked by the openai SDK."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from openai import APIError, BadRequestError, OpenAI

from conch_contracts.records import Dialect
from testkit.engines.dialect_stand_ins import OTHER_FORMS, PER_DIALECT, StandIn, dialects_server
from testkit.models.byte_model import write_byte_model
from testkit.models.vocabularies import BYTE_EOS
from testkit.processes.conch_up import ConchUp, wait_until

TEXT = "Hello 你好 🙂 end."
AT_ONCE_S = 0.1
TRIES = 20
"""What a refusal costs is told by its fastest try: how busy the machine is does not count."""
MODELS = (*PER_DIALECT, *(one for one in OTHER_FORMS if one.name in {"trt-bls", "trt-llm-api", "vllm-old"}))
every = pytest.mark.parametrize("model", [one.name for one in MODELS])
every_dialect = pytest.mark.parametrize("model", [one.name for one in PER_DIALECT])


@dataclass(frozen=True, slots=True)
class Running:
    client: OpenAI
    events: Path

    def cancelled(self) -> int:
        """Return how many requests the engines have seen cancelled."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        return sum(json.loads(line)["what"] == "cancelled" for line in lines)


def deployment(model: StandIn, grpc: str, folder: Path) -> dict[str, object]:
    generation = {"endId": BYTE_EOS} if model.dialect is Dialect.FASTERTRANSFORMER else {}
    external = {"grpc": grpc, "modelName": model.name, "dialect": str(model.dialect)}
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": model.name},
        "spec": {
            "kind": "LLM",
            "source": {"path": str(folder)},
            "engine": {"external": external},
            "generation": generation,
        },
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("dialects")
    source, events = write_byte_model(folder / "bytes"), folder / "events"
    with dialects_server(folder, events, MODELS) as server:
        models = folder / "models.yaml"
        models.write_text(yaml.safe_dump_all([deployment(model, server.grpc, source) for model in MODELS]))
        with (
            ConchUp(folder / "state", models) as conch,
            OpenAI(base_url=conch.base_url, api_key="x", timeout=120, max_retries=0) as client,
        ):
            yield Running(client, events)


def said(text: str, **remark: object) -> str:
    return "@" + json.dumps({"say": text, **remark}, ensure_ascii=False)


def messages(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


@every
def test_a_chat_is_answered_whole_and_streamed_alike(running: Running, model: str) -> None:
    asked = {"model": model, "messages": messages(said(TEXT))}
    whole = running.client.chat.completions.create(**asked)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (TEXT, "stop")
    chunks = list(running.client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == TEXT
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert chunks[-1].usage == whole.usage


@every
def test_choices_stop_strings_and_seeds(running: Running, model: str) -> None:
    text = "ein schöner Text 🙂 "
    answer = running.client.completions.create(model=model, prompt=text, n=3, seed=4, max_tokens=60)
    assert [choice.text for choice in answer.choices] == [text[turn:] + text[:turn] for turn in (4, 5, 6)]
    cut = running.client.completions.create(model=model, prompt=text, temperature=0, max_tokens=60, stop=["öner T"])
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("ein sch", "stop")
    short = running.client.completions.create(model=model, prompt=text, temperature=0, max_tokens=3)
    assert (short.choices[0].text, short.choices[0].finish_reason) == ("ein", "length")


LACKING = [
    ("vllm", {"logit_bias": {"3": 1}}, "logit_bias"),
    ("vllm", {"extra_body": {"truncate_prompt_tokens": 5}}, "truncate_prompt_tokens"),
    ("vllm", {"extra_body": {"kv_transfer_params": {"do_remote_decode": True}}}, "kv_transfer_params.do_remote_decode"),
    ("tensorrtllm", {"extra_body": {"kv_transfer_params": {"a": 1}}}, "kv_transfer_params"),
    ("tensorrtllm", {"extra_body": {"min_p": 0.5}}, "min_p"),
    ("tensorrtllm", {"logprobs": True, "top_logprobs": 2}, "top_logprobs"),
    ("vllm", {"n": 2, "extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ("tokens", {"n": 2, "extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ("trt-bls", {"n": 2, "extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ("fastertransformer", {"frequency_penalty": 0.5}, "frequency_penalty"),
    ("fastertransformer", {"extra_body": {"ignore_eos": True}}, "ignore_eos"),
    ("fastertransformer", {"extra_body": {"min_tokens": 3}}, "min_tokens"),
]


@pytest.mark.parametrize(("model", "asked", "param"), LACKING)
def test_what_a_backend_lacks_is_a_400_at_once(
    running: Running, model: str, asked: dict[str, object], param: str
) -> None:
    took = []
    while len(took) < TRIES and min(took, default=AT_ONCE_S) >= AT_ONCE_S:
        started = time.monotonic()
        with pytest.raises(BadRequestError) as refused:
            running.client.chat.completions.create(model=model, messages=messages("hi"), **asked)  # type: ignore[call-overload]
        took.append(time.monotonic() - started)
        assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")
    assert min(took) < AT_ONCE_S


def test_what_vllm_is_told_of_other_engines_comes_back(running: Running) -> None:
    told = {"do_remote_prefill": True, "remote_block_ids": [1, 2]}
    asked = {"model": "vllm", "max_tokens": 4, "extra_body": {"kv_transfer_params": told}}
    chat = running.client.chat.completions.create(messages=messages("hi"), **asked)  # type: ignore[call-overload]
    text = running.client.completions.create(prompt="hi", **asked)  # type: ignore[call-overload]
    assert chat.model_extra["kv_transfer_params"] == text.model_extra["kv_transfer_params"] == told


@pytest.mark.parametrize("model", ["fastertransformer", "tensorrtllm"])
def test_a_beam_search_gives_its_beams(running: Running, model: str) -> None:
    asked = {"use_beam_search": True, "length_penalty": 0.5}
    found = running.client.completions.create(
        model=model, prompt="abcdef", n=2, best_of=3, max_tokens=60, extra_body=asked
    )
    assert [choice.text for choice in found.choices] == ["abcdef", "bcdefa"]
    assert found.usage is not None
    assert found.usage.completion_tokens == 3 * 7
    with pytest.raises(BadRequestError) as refused:
        running.client.completions.create(model=model, prompt="a", extra_body={**asked, "length_penalty": 99})
    assert refused.value.param == "length_penalty"


@every_dialect
def test_an_error_in_the_middle_reaches_the_client(running: Running, model: str) -> None:
    stream = running.client.chat.completions.create(model=model, messages=messages(said(TEXT, fail=3)), stream=True)
    pieces: list[str] = []
    with pytest.raises(APIError):
        pieces.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(pieces) == "Hel"


@every_dialect
def test_a_client_that_goes_ends_the_engines_work(running: Running, model: str) -> None:
    before = running.cancelled()
    stream = running.client.chat.completions.create(
        model=model, messages=messages(said("a" * 100, delay=0.2)), stream=True
    )
    next(iter(stream))
    stream.close()
    wait_until(lambda: running.cancelled() > before, "the cancellation")
