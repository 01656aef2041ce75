"""Compiles what an answer must look like into something that says which tokens may come next."""
