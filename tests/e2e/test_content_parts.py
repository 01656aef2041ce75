"""Messages in parts reach the chat template in the form that it takes: what the model gets is what transformers makes.

Two deployments share one engine and one template, which takes lists of parts; one of them says that it gets texts.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from testkit.http.json_post import Answered, post
from testkit.models.content_templates import CHATML, EVERY_MESSAGE
from testkit.processes.conch_up import EXAMPLE, ROOT, ConchUp
from testkit.servers.triton import triton_server

ECHO = ROOT / "tests" / "support" / "triton_models" / "echo"
FOLDER = EXAMPLE.parent / "tiny-chat"
OF_ANYTHING = "{% for m in messages %}<{{ m.content is string }}>{{ m.content }}{% endfor %}"


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
MESSAGES = [
    {"role": "system", "content": "Be good."},
    {"role": "user", "content": [text("What is"), text(" this?\n"), text("é😀")]},
    {"role": "assistant", "content": [text("Hm."), {"type": "refusal", "refusal": "No."}]},
    {"role": "user", "content": [text("Why?")]},
]
WITH_LISTS = [
    {"role": "system", "content": [text("Be good.")]},
    MESSAGES[1],
    {"role": "assistant", "content": [text("Hm."), text("No.")]},
    MESSAGES[3],
]
WITH_TEXTS = [
    MESSAGES[0],
    {"role": "user", "content": "What is\n this?\n\né😀"},
    {"role": "assistant", "content": "Hm.\nNo."},
    {"role": "user", "content": "Why?"},
]


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    folder = tmp_path_factory.mktemp("parts")
    shutil.copytree(ECHO, folder / "repository" / "echo")
    with triton_server(folder / "repository", "echo", folder=folder) as triton:
        files = [
            deployment(folder, "parts", triton.grpc, chatTemplate={"inline": EVERY_MESSAGE}),
            deployment(folder, "texts", triton.grpc, chatTemplate={"inline": EVERY_MESSAGE}, contentFormat="string"),
        ]
        with ConchUp(folder / "state", *files, settings={"CONCH_CHAT_TEMPLATES": "true"}) as running:
            yield running


def deployment(folder: Path, name: str, grpc: str, **tokenizer: object) -> Path:
    path = folder / f"{name}.yaml"
    spec = {
        "kind": "LLM",
        "source": {"path": str(FOLDER)},
        "engine": {"external": {"grpc": grpc, "modelName": "echo", "dialect": "tokens"}},
        "tokenizer": tokenizer,
    }
    path.write_text(
        json.dumps(
            {"apiVersion": "conch.dev/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": name}, "spec": spec}
        )
    )
    return path


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(str(FOLDER))


def expected(reference: PreTrainedTokenizerBase, messages: list[Any], template: str = EVERY_MESSAGE) -> list[int]:
    rendered = reference.apply_chat_template(
        messages, chat_template=template, tokenize=False, add_generation_prompt=True
    )
    ids: list[int] = reference.encode(rendered, add_special_tokens=False)
    return ids


def tokenized(conch: ConchUp, model: str = "parts", messages: object = MESSAGES, **fields: object) -> Answered:
    return post(f"{conch.base_url}/tokenize", {"model": model, "messages": messages, **fields})


def test_a_template_that_takes_parts_gets_them(conch: ConchUp, reference: PreTrainedTokenizerBase) -> None:
    ids = expected(reference, WITH_LISTS)
    found = tokenized(conch, return_token_strs=True).body
    assert (found["tokens"], found["token_strs"]) == (ids, reference.convert_ids_to_tokens(ids))
    chat = {"model": "parts", "messages": MESSAGES, "max_tokens": 1, "return_token_ids": True}
    answer = post(f"{conch.base_url}/chat/completions", chat).body
    assert answer["choices"][0]["message"]["prompt_token_ids"] == ids


def test_the_deployment_may_say_that_it_gets_texts(conch: ConchUp, reference: PreTrainedTokenizerBase) -> None:
    found = tokenized(conch, "texts").body["tokens"]
    assert found == expected(reference, WITH_TEXTS) != expected(reference, WITH_LISTS)


@pytest.mark.parametrize("model", ["parts", "texts"])
@pytest.mark.parametrize(
    ("template", "messages"), [(CHATML, WITH_TEXTS), (EVERY_MESSAGE, WITH_LISTS), (OF_ANYTHING, WITH_TEXTS)]
)
def test_of_a_template_in_a_request_only_its_own_form_counts(
    conch: ConchUp, reference: PreTrainedTokenizerBase, model: str, template: str, messages: list[Any]
) -> None:
    found = tokenized(conch, model, chat_template=template)
    assert found.body["tokens"] == expected(reference, messages, template)


def test_a_response_is_made_of_the_same_prompt(conch: ConchUp, reference: PreTrainedTokenizerBase) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is"}, {"type": "input_text", "text": "this"}]}
    ]
    made = [{"role": "user", "content": [text("What is"), text("this")]}]
    body = {"model": "parts", "input": items, "max_output_tokens": 1, "store": False}
    answer = post(f"{conch.base_url}/responses", body).body
    assert answer["usage"]["input_tokens"] == len(expected(reference, made))


def test_calls_and_their_results_fit_between_parts(conch: ConchUp, reference: PreTrainedTokenizerBase) -> None:
    template = EVERY_MESSAGE.replace(
        "in message['content'] %}", "in (message['content'] if not message.name else []) %}"
    )
    called = [
        MESSAGES[3],
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": [text("12"), text("noon")], "tool_call_id": "call_1"},
    ]
    assert template != EVERY_MESSAGE
    found = tokenized(conch, messages=called, chat_template=template + "{{ messages[2].content }}").body["tokens"]
    shown = [
        called[0],
        {"role": "assistant", "content": []},
        {"role": "tool", "content": "12\nnoon", "name": "now"},
    ]
    assert found == expected(reference, shown, template + "{{ messages[2].content }}")


def test_the_last_part_is_gone_on_with(conch: ConchUp, reference: PreTrainedTokenizerBase) -> None:
    begun = [MESSAGES[3], {"role": "assistant", "content": [text("Well"), text(", so")]}]
    found = tokenized(conch, messages=begun, add_generation_prompt=False, continue_final_message=True)
    rendered = reference.apply_chat_template(
        begun, chat_template=EVERY_MESSAGE, tokenize=False, continue_final_message=True
    )
    assert rendered.endswith("Well, so")
    assert found.body["tokens"] == reference.encode(rendered, add_special_tokens=False)


def test_pictures_are_refused_by_a_model_that_does_not_see(conch: ConchUp) -> None:
    image = [text("What is this?"), {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    answer = tokenized(conch, messages=[{"role": "user", "content": image}])
    assert (answer.status, answer.body["error"]["param"]) == (400, "messages.0.content.1.image_url")
