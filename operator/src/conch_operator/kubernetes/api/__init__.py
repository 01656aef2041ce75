"""The API server in the few calls that the operator makes: kinds, client, Lease, kept lists, objects kept as planned.

Nothing here decides what a model or an engine should be.
"""
