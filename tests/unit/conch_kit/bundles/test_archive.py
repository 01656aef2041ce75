import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from conch_kit.bundles.archive import BundleError, digest, pack, unpack


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text('{"a": 1}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _bundle(*entries: tarfile.TarInfo, content: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return zstandard.compress(buffer.getvalue())


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    return entry


def test_only_tokenizer_files_travel(model: Path, tmp_path: Path) -> None:
    name, data = pack(model)
    assert name == digest(data)
    unpack(data, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        "tokenizer.json": b'{"a": 1}',
        "chat_template.jinja": b"{{ messages }}",
    }


def test_the_same_files_always_have_the_same_digest(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    (copy / "chat_template.jinja").write_text("{{ messages }}")
    (copy / "tokenizer.json").write_text('{"a": 1}')
    assert pack(copy) == pack(model)
    (copy / "tokenizer.json").write_text('{"a": 2}')
    assert pack(copy)[0] != pack(model)[0]


PICTURE_FILES = ["chat_template.json", "preprocessor_config.json", "processor_config.json"]


def test_what_a_model_makes_of_pictures_travels_with_its_tokenizer(model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text('{"vision_config": {}}')
    for name in PICTURE_FILES:
        (model / name).write_text("{}")
    unpack(pack(model)[1], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} >= set(PICTURE_FILES)


def test_the_bundle_of_a_model_that_sees_no_pictures_keeps_its_name(model: Path) -> None:
    for name in PICTURE_FILES:  # a model of speech has some of them too
        (model / name).write_text("{}")
    assert pack(model)[0] == "b53c1a07ff3c70f28f677b15ade22be388bfd957d5aa8c709d1578a89eab2c12"


def test_links_in_a_model_folder_are_followed(model: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja"):
        (linked / name).symlink_to(model / name)
    assert pack(linked) == pack(model)


def test_a_folder_without_tokenizer_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="holds no tokenizer files"):
        pack(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "tar"),
        (b"garbage", "zstd"),
        (zstandard.compress(b"garbage" * 100), "tar"),
        (_bundle(_entry("../tokenizer.json")), "no tokenizer file"),
        (_bundle(_entry("/etc/passwd")), "no tokenizer file"),
        (_bundle(_entry("model.py")), "no tokenizer file"),
        (_bundle(_entry("tokenizer.json", tarfile.SYMTYPE, "/etc/passwd")), "no tokenizer file"),
        (_bundle(_entry("tokenizer.json", tarfile.LNKTYPE, "config.json")), "no tokenizer file"),
        (_bundle(_entry("tokenizer.json", tarfile.DIRTYPE)), "no tokenizer file"),
        (_bundle(_entry("tokenizer.json"), _entry("tokenizer.json")), "twice"),
        (_bundle(_entry("tokenizer.json"))[:-20], "zstd|tar"),
    ],
)
def test_a_bundle_that_is_not_ours_leaves_nothing_behind(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=message):
        unpack(data, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_size_bomb_is_refused(tmp_path: Path) -> None:
    bomb = _bundle(_entry("tokenizer.json"), content=bytes(100_000))
    with pytest.raises(BundleError, match="more than 1000 bytes"):
        unpack(bomb, tmp_path / "out", max_bytes=1000)


def test_a_folder_that_is_there_stays_as_it_is(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    unpack(pack(model)[1], out)
    assert list(out.iterdir()) == []


def test_a_folder_whose_bundle_would_be_too_large_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_kit.bundles.archive.MAX_BUNDLE_BYTES", 10)
    with pytest.raises(BundleError, match="at most 10 are allowed"):
        pack(model)


def test_of_two_who_unpack_the_same_bundle_the_slower_one_takes_what_is_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, folder = os.rename, tmp_path / "unpacked"

    def late(draft: Path, name: Path) -> None:
        shutil.copytree(draft, name)
        rename(draft, name)

    monkeypatch.setattr(os, "rename", late)
    unpack(pack(model)[1], folder)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert any(folder.iterdir())
