"""What can go wrong; each message says what to do.

ClusterError
    ClusterUnavailable   no cluster can run on this machine, so tests skip; anything else is a failure
"""


class ClusterError(Exception):
    """The command failed."""


class ClusterUnavailable(ClusterError):
    """No cluster can run on this machine."""
