"""Entry point of the gateway: reads the environment once and runs the process."""

import os
import sys

from conch_gateway.process import run_gateway
from conch_gateway.settings import GatewaySettings
from conch_kit.service import run
from conch_kit.settings import StartupError, load


def main() -> int:
    """Run the gateway and return its exit status."""
    try:
        settings = load(GatewaySettings, os.environ)  # noqa: TID251 - the one place that reads it
    except StartupError as error:
        sys.stderr.write(f"conch-gateway: {error}\n")
        return 2
    return run(run_gateway(settings))


if __name__ == "__main__":
    sys.exit(main())
