"""Constraints on single requests: which ids may come next, by a grammar or by a limit on thinking."""
