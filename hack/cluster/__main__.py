"""Command line of the cluster script; the only place here that reads the environment.

Variables: CONCH_TEST_KUBECONFIG (use that cluster; CONCH_TEST_INGRESS_URL says where its ingress answers),
CONCH_CLUSTER_BINARIES (a folder with ready-made binaries, packed or not), CONCH_CLUSTER_HOME (where a node on this
machine keeps its files, default /var/lib/conch-cluster), CONCH_IMAGE_PREFIX and CONCH_IMAGE_VERSION (see hack/images).
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from cluster import conch_release
from cluster.checkout_images import build_images, ensure_images
from cluster.errors import ClusterError, ClusterUnavailable
from cluster.local.played import control_plane as played
from cluster.provider import Provider
from cluster.provider_choice import choose
from cluster.settings import Settings
from cluster.shell import Shell, say
from images.image_names import NAMES

_UNAVAILABLE = 3
"""The exit status that tells tests to skip: this machine cannot run a cluster."""
_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    """Run one command; failures are one line on stderr."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `cluster status | head` is no error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that temporary files are removed
    arguments = _arguments()
    environ = os.environ  # noqa: TID251 - the one place that reads it
    try:
        settings = Settings.from_environ(environ)
        shell = Shell.without_proxies(environ)
        if arguments.command == "played":
            played.prepare(settings, shell)
            return 0
        return _run(arguments, choose(settings, shell), shell)
    except ClusterUnavailable as error:
        say(str(error))
        return _UNAVAILABLE
    except ClusterError as error:
        say(str(error))
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster", description="A Kubernetes for development and tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start it, or repair it; prints the variables to use")
    commands.add_parser("show", help="print how to reach it, as JSON; fails when none runs")
    commands.add_parser("status", help="print what runs; fails when something does not")
    load = commands.add_parser("load", help="import image archives (docker or OCI tar) into its nodes")
    load.add_argument("archives", nargs="+", type=Path)
    commands.add_parser("build", help="build the images of this checkout, for a cluster that comes later")
    commands.add_parser("images", help="build and import the images of this checkout that it lacks; prints their names")
    commands.add_parser("conch", help="up, then images, chart and example; prints the variables to use")
    commands.add_parser("played", help="get ready what a control plane needs whose nodes and pods KWOK plays")
    commands.add_parser("down", help="stop everything that `up` started and leave nothing behind")
    return parser.parse_args()


def _run(arguments: argparse.Namespace, provider: Provider, shell: Shell) -> int:
    match arguments.command:
        case "up":
            print(provider.up().exports())
        case "show":
            access = provider.running()
            if access is None:
                say("No cluster runs.")
                return 1
            print(json.dumps(access.facts()))
        case "status":
            return 0 if provider.status() else 1
        case "load":
            provider.load(arguments.archives)
        case "build":
            build_images(shell)
        case "images":
            naming = ensure_images(provider, shell)
            print("\n".join(naming.image(name).reference for name in NAMES))
        case "conch":
            print(conch_release.bring_up(provider, shell))
        case "down":
            provider.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
