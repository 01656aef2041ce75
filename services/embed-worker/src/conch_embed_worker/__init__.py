"""Turns ids into vectors, scores and classes by way of a Triton engine."""
