"""The tensors that workers and engines exchange: one module a dialect, names and shapes only."""
