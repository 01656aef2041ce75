"""From a worker's bytes to the client's connection: whole bodies, relayed streams, errors before and in a stream.

Which worker answers is decided in `placement`; no token is decoded here.
"""
