"""The tensor contracts that the worker speaks: one module each, pure functions from requests and to token deltas."""
