"""The gateway as one process and one ASGI callable: which path is served by what."""
