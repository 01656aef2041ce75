"""The entry point of `conch-gateway`."""

import os
import sys

from conch_gateway.app.process import run_gateway
from conch_gateway.settings import GatewaySettings
from conch_kit.service.entry import enter


def main() -> int:
    """Run the gateway until it is told to stop, and return its exit status."""
    return enter("conch-gateway", GatewaySettings, run_gateway, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
