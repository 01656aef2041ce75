import pytest

from conch_media.picture_format import media_type_of
from testkit.builders.pictures import PICTURES


@pytest.mark.parametrize(("media_type", "file"), PICTURES.items())
def test_a_picture_is_known_by_its_first_bytes(media_type: str, file: bytes) -> None:
    assert media_type_of(file) == media_type


@pytest.mark.parametrize(
    "file",
    [b"", b"<svg xmlns='http://a.example'/>", b"%PDF-1.7", b"BM....", b"RIFF....WAVE", b"GIF88a", b"\x89PN"],
)
def test_anything_else_is_none(file: bytes) -> None:
    assert media_type_of(file) is None
