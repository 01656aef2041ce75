from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_kit.triton.encoder_tensors import (
    MAX_PARALLEL,
    NoPictures,
    UnknownTensors,
    read_encoder_tensors,
    read_picture_tensors,
    read_seeing_tensors,
)

INT32, INT64, FP32, FP64 = 8, 9, 11, 12
USUAL = (("input_ids", INT64), ("attention_mask", INT64), ("token_type_ids", INT64))


def config(
    *inputs: tuple[str, int], outputs: tuple[str, ...] = ("logits",), batch: int = 8, dims: int = 1, **changes: Any
) -> ModelConfig:
    made = ModelConfig(max_batch_size=batch)
    for name, kind in inputs or USUAL:
        made.input.add(name=name, data_type=kind, dims=[-1] * dims, optional=name in changes.get("optional", ()))
    for name in outputs:
        made.output.add(name=name, data_type=FP32, dims=[-1])
    for count in changes.get("instances", ()):
        made.instance_group.add(count=count)
    return made


def test_names_and_datatypes_come_from_the_models_config() -> None:
    encoder = read_encoder_tensors(config(("input_ids", INT32), ("attention_mask", INT64)), {}, None)
    assert encoder.inputs == (("input_ids", "input_ids", "INT32"), ("attention_mask", "attention_mask", "INT64"))


def test_the_deployments_names_take_precedence() -> None:
    encoder = read_encoder_tensors(config(("ids", INT64), outputs=("a", "b")), {"input_ids": "ids"}, "b")
    assert (encoder.inputs, encoder.output) == ((("input_ids", "ids", "INT64"),), "b")


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        (("last_hidden_state", "pooler_output"), "last_hidden_state"),
        (("last_hidden_state", "sentence_embedding"), "sentence_embedding"),
        (("logits",), "logits"),
        (("anything",), "anything"),
        (("last_hidden_state", "text_embeds", "image_embeds"), "last_hidden_state"),
        (("image_embeds", "text_embeds"), "text_embeds"),
    ],
)
def test_the_usual_output_is_chosen(outputs: tuple[str, ...], chosen: str) -> None:
    assert read_encoder_tensors(config(outputs=outputs), {}, None).output == chosen


@pytest.mark.parametrize(
    ("batch", "dims", "rows", "batched"), [(8, 1, 8, True), (1024, 1, 256, True), (0, 2, 32, True), (0, 1, 1, False)]
)
def test_the_batch_is_where_the_config_has_it(batch: int, dims: int, rows: int, batched: bool) -> None:
    encoder = read_encoder_tensors(config(batch=batch, dims=dims), {}, None)
    assert (encoder.max_rows, encoder.batched) == (rows, batched)


@pytest.mark.parametrize(
    ("batch", "dims", "datatype", "size"),
    [
        (8, [-1, 1024], FP32, (1024, 4)),
        (0, [-1, -1, 1024], FP32, (1024, 4)),
        (8, [-1, 1024], FP64, (1024, 8)),
        (8, [-1, -1], FP32, (None, 4)),
        (8, [1024], FP32, (0, 4)),
    ],
)
def test_the_size_of_a_tokens_output_is_known_where_the_config_says_it(
    batch: int, dims: list[int], datatype: int, size: tuple[int | None, int]
) -> None:
    made = config(batch=batch, outputs=("another",))
    made.output.add(name="last_hidden_state", data_type=datatype, dims=dims)
    encoder = read_encoder_tensors(made, {}, None)
    assert (encoder.token_numbers, encoder.number_bytes) == size


def test_each_instance_has_a_call_and_one_more_waits() -> None:
    assert read_encoder_tensors(config(instances=(2, 1)), {}, None).parallel == 4
    assert read_encoder_tensors(config(instances=(2**31 - 1,)), {}, None).parallel == MAX_PARALLEL


def test_an_optional_input_that_nobody_knows_is_not_sent() -> None:
    encoder = read_encoder_tensors(config(("input_ids", INT64), ("extra", INT64), optional=("extra",)), {}, None)
    assert len(encoder.inputs) == 1


@pytest.mark.parametrize(
    ("made", "output", "says"),
    [
        (config(("input_ids", INT64), ("position_ids", INT64)), None, "position_ids"),
        (config(outputs=("a", "b")), None, r"but a, b; set spec\.tensors\.output\.name"),
        (config(), "scores", "no output scores"),
    ],
)
def test_tensors_that_are_no_encoders_are_named(made: ModelConfig, output: str | None, says: str) -> None:
    with pytest.raises(UnknownTensors, match=says):
        read_encoder_tensors(made, {}, output)


@pytest.mark.parametrize(
    ("batch", "values", "rows"), [(8, 12, 8), (1000, 12, 256), (0, 12, 32), (8, 2**22, 2), (8, 2**24, 1)]
)
def test_batches_of_pictures_are_bounded_by_the_model_and_by_their_size(batch: int, values: int, rows: int) -> None:
    found = read_picture_tensors(seeing(batch=batch), values)
    assert (found.inputs, found.output) == ((("pixel_values", "pixel_values", "FP32"),), "image_embeds")
    assert (found.max_rows, found.token_numbers) == (rows, 0)


def test_a_model_without_the_tensors_of_pictures_is_refused() -> None:
    with pytest.raises(NoPictures, match="no input pixel_values and output image_embeds"):
        read_picture_tensors(config(), 12)
    with pytest.raises(NoPictures, match="its input input_ids alone"):
        read_picture_tensors(seeing(optional=("pixel_values",)), 12)


def test_a_text_with_pictures_in_it_is_a_batch_of_its_own() -> None:
    pictured = ("image_pixels", "image_shapes", "image_spans", "image_hashes")
    made = config(("input_ids", INT64), *((name, INT32) for name in pictured), optional=pictured)
    found = read_seeing_tensors(made, {}, None)
    assert (found.inputs, found.output, found.max_rows) == ((("input_ids", "input_ids", "INT64"),), "logits", 1)
    with pytest.raises(NoPictures, match="no input image_hashes"):
        read_seeing_tensors(config(("input_ids", INT64), *((name, INT32) for name in pictured[:3])), {}, None)


def test_texts_of_a_model_that_sees_are_sent_without_pictures() -> None:
    found = read_encoder_tensors(seeing(), {}, "text_embeds")
    assert found.inputs == (("input_ids", "input_ids", "INT64"),)


def seeing(*, batch: int = 8, optional: tuple[str, ...] = ("input_ids", "pixel_values")) -> ModelConfig:
    inputs = (("input_ids", INT64), ("pixel_values", FP32))
    return config(*inputs, outputs=("text_embeds", "image_embeds"), batch=batch, optional=optional)
