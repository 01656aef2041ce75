"""Embeddings: the whole path and the worker alone, beside a direct call to the same Triton."""
