"""Serves Hugging Face language models and encoders on a CPU inside the Triton Python backend."""
