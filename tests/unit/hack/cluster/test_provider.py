import shlex
from pathlib import Path

from cluster.provider import Access


def test_exports_survive_a_shell(tmp_path: Path) -> None:
    access = Access(tmp_path / "a b", tmp_path / "bin", direct=("127.0.0.1",))
    words = shlex.split(access.exports())
    assert words[0] == "export"
    assert words[1] == f"KUBECONFIG={tmp_path / 'a b'}"
    assert words[2] == f"PATH={tmp_path / 'bin'}:$PATH"
