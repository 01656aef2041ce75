"""The engine while it runs: batching, computing, and sending what was made. It does not know Triton's modules."""
