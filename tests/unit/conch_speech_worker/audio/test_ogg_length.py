import pytest

from conch_speech_worker.audio.ogg_length import granule_of_last_page


def page(granule: int) -> bytes:
    return b"OggS\0\0" + granule.to_bytes(8, "little") + bytes(20)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (page(0) + page(48_000), 48_000),
        (page(48_000) + page(2**64 - 1), 48_000),
        (page(48_000) + b"OggS\0", 48_000),
        (b"nothing of the kind", None),
        (b"", None),
        (page(7) + bytes(300_000), None),
    ],
)
def test_the_last_page_that_tells_a_position_counts(tmp_path, data, found):
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        assert granule_of_last_page(file.fileno()) == found
