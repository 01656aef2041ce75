"""The ways to tokenizers and workers: a small Protocol, a pool of connections on httptools, and lanes to tokenizers.

Whom to call, and whether to call again elsewhere, is decided in `placement`.
"""
