"""Turns prompt ids into answer text by way of a Triton engine."""
