"""Tokenizer bundles: packed and proven by their digest, kept in Redis and on disk. What is in them is not read here."""
