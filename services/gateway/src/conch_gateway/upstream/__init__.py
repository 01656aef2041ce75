"""The HTTP client that calls tokenizers and workers: a small Protocol, and a pool of connections on httptools.

Whom to call, and whether to call again elsewhere, is decided in `placement`.
"""
