"""What can be wrong with a grammar."""


class UnusableGrammar(Exception):
    """A grammar that cannot be obeyed; the message says why, for the one who wrote it."""
