"""Installs the Debian packages that something needs, where that is allowed."""

import os
from collections.abc import Mapping

from cluster.errors import ClusterUnavailable
from cluster.shell import Shell, say


def require(what: str, programs: Mapping[str, str], shell: Shell) -> None:
    """Install the packages of those programs that are missing; raises ClusterUnavailable with the command instead."""
    missing = {program: package for program, package in programs.items() if not shell.has(program)}
    if not missing:
        return
    command = f"apt-get install -y {' '.join(missing.values())}"
    if os.geteuid() or not shell.has("apt-get"):
        raise ClusterUnavailable(f"{what} needs {', '.join(missing)}. As root: {command}")
    say(f"Installing {', '.join(missing.values())}.")
    installer = shell.with_variables(DEBIAN_FRONTEND="noninteractive")
    installer.show("apt-get", "update", "-qq")
    installer.show(*command.split(), "-qq")
