"""Turns speech into text by way of a Triton engine."""
