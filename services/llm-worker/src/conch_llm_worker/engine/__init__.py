"""Calls to engines, and the API errors of what goes wrong in them; tensors are read and written in `dialects`."""
