"""The API server in the few calls that the operator makes: kinds, client, Lease, and objects kept as planned.

Nothing here knows models or engines.
"""
