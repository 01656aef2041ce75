from dataclasses import replace

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.dialects.encoder import LAST_HIDDEN_STATE
from conch_contracts.dialects.speech import PARAMETERS, PCM, PROMPT_IDS
from conch_contracts.records import Dialect
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository

MODEL = CpuModel(
    'od"d', "/models/tiny chat", "/cache", quantization="int8", max_batch_size=4, tokens_per_second=7, max_length=512
)


def _config(model: CpuModel) -> ModelConfig:
    return text_format.Parse(render_cpu_repository(model)[f"{model.name}/config.pbtxt"], ModelConfig())


def test_triton_can_parse_the_configuration() -> None:
    config = _config(MODEL)
    assert (config.name, config.backend, config.max_batch_size) == ('od"d', "python", 0)
    assert config.model_transaction_policy.decoupled
    assert [tensor.name for tensor in config.input] == ["input_ids", "parameters"]
    assert len(config.output) == 10


def test_only_a_model_that_sees_has_inputs_for_pictures() -> None:
    plain, seeing = _config(MODEL), _config(replace(MODEL, sees=True, feature_cache_bytes=5))
    optional = {tensor.name: list(tensor.dims) for tensor in seeing.input if tensor.optional}
    assert optional == {"image_pixels": [-1], "image_shapes": [-1, 3], "image_spans": [-1, 2], "image_hashes": [-1]}
    assert [tensor.name for tensor in seeing.input if not tensor.optional] == ["input_ids", "parameters"]
    assert seeing.parameters["feature_cache_bytes"].string_value == "5"
    del seeing.parameters["feature_cache_bytes"]
    del seeing.input[2:]
    assert seeing == plain


def test_no_queue_policy_is_rendered() -> None:
    assert not _config(MODEL).HasField("dynamic_batching")


def test_every_setting_reaches_the_runtime() -> None:
    values = {name: parameter.string_value for name, parameter in _config(MODEL).parameters.items()}
    assert values == {
        "model_folder": "/models/tiny chat",
        "cache_folder": "/cache",
        "quantization": "int8",
        "max_batch_size": "4",
        "tokens_per_second": "7",
        "kv_cache_bytes": str(4 * 1024**3),
        "max_length": "512",
    }


def test_the_model_file_only_imports_the_runtime() -> None:
    code = render_cpu_repository(MODEL)['od"d/1/model.py']
    assert "from conch_runtime_cpu.triton_model import TritonPythonModel" in code
    compile(code, "model.py", "exec")


def test_a_model_of_speech_has_its_own_tensors_and_the_same_settings() -> None:
    model = replace(MODEL, dialect=Dialect.SPEECH)
    config = _config(model)
    assert config.model_transaction_policy.decoupled
    assert [tensor.name for tensor in config.input] == [PCM, PROMPT_IDS, PARAMETERS]
    assert len(config.output) == 8
    assert dict(config.parameters).keys() == dict(_config(MODEL).parameters).keys()
    assert "from conch_runtime_cpu.triton_speech import" in render_cpu_repository(model)['od"d/1/model.py']


def test_an_embedding_model_that_may_see_has_inputs_and_outputs_of_both_kinds() -> None:
    model = replace(MODEL, output=LAST_HIDDEN_STATE)
    plain, seeing = _config(model), _config(replace(model, sees=True))
    assert {tensor.name: list(tensor.dims) for tensor in seeing.input if tensor.optional} == {
        "input_ids": [-1],
        "attention_mask": [-1],
        "token_type_ids": [-1],
        "pixel_values": [3, -1, -1],
        "image_pixels": [-1],
        "image_shapes": [-1, 3],
        "image_spans": [-1, 2],
        "image_hashes": [-1],
    }
    assert [tensor.name for tensor in seeing.output] == [LAST_HIDDEN_STATE, "text_embeds", "image_embeds"]
    assert dict(seeing.parameters) == dict(plain.parameters)
    assert [tensor.name for tensor in plain.output] == [LAST_HIDDEN_STATE]
