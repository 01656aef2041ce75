"""The gateway as one process and one ASGI callable: which path is served by what.

No other folder imports from here; what a request means is decided in the other folders.
"""
