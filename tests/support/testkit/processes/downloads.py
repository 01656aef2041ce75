"""Downloads: in this process, which is quick, and by the real `conch-download` as a process."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conch_operator.download.errors import DownloadError
from conch_operator.download.file_selection import Selection
from conch_operator.download.remote_source import Remote
from conch_operator.download.resumable_download import PARTS, WaitTimes, download_folder


@dataclass(frozen=True)
class Ended:
    """How a download ended."""

    status: int
    output: str
    message: str


@dataclass
class Download:
    """Runs downloads into one folder, one after another."""

    folder: Path
    environ: Mapping[str, str]

    def bring(
        self,
        remote: Remote,
        selection: str = "safetensors",
        limit_bytes: int | None = None,
        lock_s: float = 30.0,
    ) -> str:
        """Download in this process and return the last line that `conch-download` would say."""
        try:
            download_folder(
                remote, self.folder, Selection(selection), limit_bytes, WaitTimes(retry_s=0.01, lock_s=lock_s)
            )
        except DownloadError as error:
            return error.line
        return ""

    def run(self, source: Mapping[str, Any], selection: str = "safetensors", **settings: object) -> Ended:
        """Download and return how that ended."""
        message = self.folder.parent / "message"
        message.parent.mkdir(exist_ok=True)
        message.write_text("")
        given = {
            "CONCH_SOURCE": json.dumps(source),
            "CONCH_FOLDER": str(self.folder),
            "CONCH_SELECTION": selection,
            "CONCH_MESSAGE_FILE": str(message),
            **{f"CONCH_{name.upper()}": str(value) for name, value in settings.items()},
        }
        done = subprocess.run(
            [sys.executable, "-m", "conch_operator.download.main"],
            env={**self.environ, **given},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Ended(done.returncode, done.stderr + done.stdout, message.read_text())

    def take_back(self, name: str, size: int, *, spoiled: bool = False) -> None:
        """Make it be as if a process had been killed after so many bytes of this file."""
        draft = self.folder.with_name(f".{self.folder.name}.draft")
        self.folder.rename(draft)
        content = (draft / name).read_bytes()[:size]
        (draft / PARTS).mkdir()
        (draft / PARTS / name).write_bytes(bytes(len(content)) if spoiled else content)
        (draft / name).unlink()

    def files(self) -> dict[str, bytes]:
        """Return what has been downloaded, without our note."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}
