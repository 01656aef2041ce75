"""Tokenizer bundles: packed, checked by their digest, kept in Redis and on disk. Nobody here reads what is in them."""
