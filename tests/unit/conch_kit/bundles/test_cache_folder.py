from pathlib import Path

from conch_kit.bundles.cache_folder import cache_folder


def test_a_configured_folder_stays_and_another_goes_with_the_process(tmp_path: Path) -> None:
    with cache_folder(tmp_path, name="x") as folder:
        assert folder == tmp_path
    assert tmp_path.is_dir()
    with cache_folder(None, name="x") as folder:
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
