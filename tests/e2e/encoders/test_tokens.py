"""`/tokenize` and `/detokenize` against Hugging Face's own tokenizers, over generated texts."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from transformers import AutoTokenizer

from testkit.http.json_post import post
from testkit.processes.conch_up import ROOT

PIECES = (
    "hello",
    "World ",
    " naïve café",
    "你好",
    "推理服务器",
    "🙂",
    "👩‍👩‍👧",
    "\n\t",
    "  ",
    "<|im_start|>",
    "<|endoftext|>",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "don't",
    "3.14",
    "a\u0301",
    "\u200b",
    "ﬁ",
    "{}[]",
    "Ω≈ç",
    "\x00",
)


def texts(count: int) -> list[str]:
    chosen = random.Random(20)
    return ["".join(chosen.choices(PIECES, k=chosen.randint(1, 12))) for _ in range(count)]


@pytest.mark.parametrize("model", ["tiny-chat", "tiny-reranker"])
def test_ids_and_texts_are_those_of_hugging_face(base_url: str, model: str) -> None:
    reference = AutoTokenizer.from_pretrained(str(ROOT / "examples" / model))
    generated = texts(250)

    def ids(numbered: tuple[int, str]) -> list[int]:
        special = numbered[0] % 2 == 0
        body = {"model": model, "prompt": numbered[1], "add_special_tokens": special}
        answer = post(f"{base_url}/tokenize", body)
        assert (answer.status, answer.body["count"]) == (200, len(answer.body["tokens"]))
        assert answer.body["tokens"] == reference.encode(numbered[1], add_special_tokens=special)
        found: list[int] = answer.body["tokens"]
        return found

    def text(tokens: list[int]) -> None:
        answer = post(f"{base_url}/detokenize", {"model": model, "tokens": tokens})
        assert answer.body == {"prompt": reference.decode(tokens)}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(text, pool.map(ids, enumerate(generated))))


def test_tokens_are_spelt_out_and_conversations_rendered(base_url: str) -> None:
    spelt = post(f"{base_url}/tokenize", {"model": "minilm", "prompt": "hello", "return_token_strs": True}).body
    assert spelt == {
        "count": 3,
        "max_model_len": 256,
        "tokens": [101, 7592, 102],
        "token_strs": ["[CLS]", "hello", "[SEP]"],
    }
    messages = [{"role": "user", "content": "Hello"}]
    chat = post(f"{base_url}/tokenize", {"model": "tiny-chat", "messages": messages}).body
    text = post(f"{base_url}/detokenize", {"model": "tiny-chat", "tokens": chat["tokens"]}).body["prompt"]
    assert text.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
