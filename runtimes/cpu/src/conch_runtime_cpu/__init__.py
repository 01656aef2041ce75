"""Serves Hugging Face causal language models on a CPU inside the Triton Python backend."""
