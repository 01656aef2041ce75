import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from conch_contracts.messages.tokenization import ChatInput, PrepareRequest
from conch_contracts.names import Digest
from conch_tokenizer.errors import BundleUnreadable
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from conch_tokenizer.text.prompts import prepare_prompts

ALPHABET = "abc XYZ 0189\n\t.,:'\"<>|{}äöüßéñ中文请重复推理服务器日本語한국어😀👩‍👩‍👧‍👦🏳️‍🌈e\u0301\u200b\ufeff\x00\u202e"


def random_texts(count: int) -> list[str]:
    dice = random.Random(7)
    return ["".join(dice.choices(ALPHABET, k=dice.randint(0, 60))) for _ in range(count)]


def test_random_texts_encode_and_decode_as_hugging_face_does(model: ModelTokenizer, tiny_chat: Path) -> None:
    reference = AutoTokenizer.from_pretrained(str(tiny_chat))
    for text in random_texts(200):
        ids = model.encode(text, add_special_tokens=True)
        assert ids == reference.encode(text)
        assert model.decode(ids) == reference.decode(ids)


def test_the_vocabulary_reaches_as_far_as_the_models_embeddings(model: ModelTokenizer) -> None:
    assert model.vocab_size == 2048
    assert ModelTokenizer(model.transformers, embeddings=4096).vocab_size == 4096


def test_a_token_is_spelt_as_in_the_vocabulary(model: ModelTokenizer) -> None:
    ids = model.encode("Hello world", add_special_tokens=False)
    assert model.token_strings(ids) == tuple(model.transformers.convert_ids_to_tokens(ids))


def test_a_template_in_a_file_of_its_own_is_found(tiny_chat: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(tiny_chat / name, tmp_path)
    config = json.loads((tiny_chat / "tokenizer_config.json").read_text())
    template = config.pop("chat_template")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "chat_template.jinja").write_text(template)
    assert load(tmp_path).transformers.chat_template == template


def write_tokenizer_with_bos(folder: Path, around: str = "<s> $A </s>") -> None:
    words = WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3, "?": 4}, unk_token="?")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = TemplateProcessing(single=around, special_tokens=[("<s>", 0), ("</s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_special_tokens_around_a_text_are_known(tmp_path: Path) -> None:
    write_tokenizer_with_bos(tmp_path)
    model = load(tmp_path)
    assert model.surround([3]) == model.encode("b", add_special_tokens=True) == [0, 3, 1]


@pytest.mark.parametrize(
    ("around", "sent"), [("<s> $A </s>", "a b"), ("<s> $A", "a b"), ("$A </s>", "<s>a b"), ("$A", "<s>a b")]
)
def test_a_text_for_an_engine_lacks_the_bos_only_where_its_tokenizer_adds_one(
    tmp_path: Path, around: str, sent: str
) -> None:
    write_tokenizer_with_bos(tmp_path, around)
    chat = ChatInput(messages=({"role": "user", "content": "a"},), chat_template="<s>a b")
    request = PrepareRequest(digest=Digest("0" * 64), chat=chat, add_special_tokens=False)
    model = load(tmp_path)
    tokenizer = LimitedTokenizer(model, ChatRenderer(model), 1024, lambda: None)
    (prompt,) = prepare_prompts(tokenizer, request).prompts
    assert (prompt.ids, prompt.text) == ((0, 2, 3), sent)


def test_no_program_of_a_bundle_is_run(tmp_path: Path, tiny_chat: Path) -> None:
    folder, ran = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(tiny_chat, folder)
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass Own: pass\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with suppress(BundleUnreadable):
        load(folder)
    assert not ran.exists()


@pytest.mark.parametrize("files", [{}, {"tokenizer.json": "{"}, {"tokenizer.json": '{"model": 5}'}])
def test_files_that_are_no_tokenizer_are_unreadable(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BundleUnreadable, match="transformers cannot load"):
        load(tmp_path)
