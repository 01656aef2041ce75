"""Calls to engines, and what their failures mean to clients; the tensors themselves are in `dialects`."""
