"""Lets `python -m conch_operator.cli` be the `conch` command."""

import sys

from conch_operator.cli.main import main

sys.exit(main())
