import pytest

from conch_contracts.conditions import Reason
from conch_operator.download.errors import DownloadError
from conch_operator.download.file_selection import Selection, select
from conch_operator.download.remote_source import RemoteFile

MIXED = ("config.json", "tokenizer.json", "model.safetensors", "model.bin", "onnx/model.onnx", ".git/x", "1_Pooling/a")

SEEING = ("model.safetensors", "config.json", "preprocessor_config.json", "onnx/model.onnx")


def chosen(selection: Selection, *names: str) -> set[str]:
    return {file.path for file in select([RemoteFile(name, len(name)) for name in names], selection, "s3://a")}


@pytest.mark.parametrize(
    ("selection", "names", "expected"),
    [
        (Selection.TOKENIZER, MIXED, {"config.json", "tokenizer.json"}),
        (Selection.SAFETENSORS, MIXED, {"config.json", "tokenizer.json", "model.safetensors", "1_Pooling/a"}),
        (Selection.WEIGHTS, MIXED, {"config.json", "tokenizer.json", "model.safetensors", "1_Pooling/a"}),
        (Selection.WEIGHTS, ("config.json", "model.bin"), {"config.json", "model.bin"}),
        (Selection.ALL, MIXED, {*MIXED} - {".git/x"}),
        (Selection.ENCODER, MIXED, {"config.json", "tokenizer.json", "onnx/model.onnx", "1_Pooling/a"}),
        (Selection.ENCODER, SEEING, {*SEEING} - {"onnx/model.onnx"}),
        (Selection.ENCODER, SEEING[1:], {*SEEING[1:]}),
    ],
)
def test_an_engine_gets_what_it_can_use(selection: Selection, names: tuple[str, ...], expected: set[str]) -> None:
    assert chosen(selection, *names) == expected


@pytest.mark.parametrize(
    ("selection", "names", "says"),
    [
        (Selection.SAFETENSORS, ("model.bin",), "s3://a holds no *.safetensors files"),
        (Selection.TOKENIZER, ("model.bin",), "s3://a holds no tokenizer files"),
        (Selection.ALL, (), "s3://a holds no files"),
    ],
)
def test_a_source_without_what_is_needed_is_refused(selection: Selection, names: tuple[str, ...], says: str) -> None:
    with pytest.raises(DownloadError) as refused:
        chosen(selection, *names)
    assert refused.value.line.startswith(f"SourceNotFound: {says}")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../../b", "", "a\\b", "a\0"])
def test_a_file_stays_in_its_folder(path: str) -> None:
    with pytest.raises(DownloadError) as refused:
        RemoteFile(path, 1)
    assert refused.value.reason is Reason.DOWNLOAD_FAILED
