"""The service's side of HTTP: which child gets a body, and what its failure is to the caller. Reads no prompt."""
