"""Embeddings through the SDK, which asks for base64 by itself."""

import base64
import struct

import pytest
from openai import BadRequestError, OpenAI


def test_base64_by_default_and_floats_on_request_are_the_same_numbers(client: OpenAI) -> None:
    default = client.embeddings.create(model="minilm", input="The cat sat on the mat.")
    floats = client.embeddings.create(model="minilm", input="The cat sat on the mat.", encoding_format="float")
    raw = client.embeddings.create(model="minilm", input="The cat sat on the mat.", encoding_format="base64")
    text = raw.data[0].embedding
    assert isinstance(text, str)
    unpacked = list(struct.unpack("<384f", base64.b64decode(text)))
    assert unpacked == pytest.approx(default.data[0].embedding, abs=1e-7)
    assert unpacked == pytest.approx(floats.data[0].embedding, abs=1e-6)
    assert sum(number * number for number in unpacked) == pytest.approx(1, abs=1e-5)


def test_every_form_of_input_keeps_its_order(client: OpenAI) -> None:
    texts = client.embeddings.create(model="minilm", input=["hello", "goodbye"])
    ids = client.embeddings.create(model="minilm", input=[[101, 7592, 102], [101, 9119, 102]])
    one = client.embeddings.create(model="minilm", input=[101, 7592, 102])
    assert [item.index for item in texts.data] == [0, 1]
    assert ids.data[0].embedding == pytest.approx(texts.data[0].embedding, abs=1e-6)
    assert ids.data[1].embedding == pytest.approx(texts.data[1].embedding, abs=1e-6)
    assert one.data[0].embedding == pytest.approx(texts.data[0].embedding, abs=1e-6)
    assert (texts.model, texts.object, texts.usage.prompt_tokens, texts.usage.total_tokens) == ("minilm", "list", 6, 6)


def test_a_request_that_cannot_be_served_names_its_parameter(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.embeddings.create(model="minilm", input="hello", dimensions=128)
    assert caught.value.param == "dimensions"
