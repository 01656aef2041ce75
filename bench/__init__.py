"""Measures what Conch costs, against references that run in the same minutes on the same machine.

`bench.chain` compares the whole path with a direct gRPC client on the same Triton, `bench.relay` the gateway with nginx
before the same scripted worker, and `bench.encoders` the paths to an embedding. `bench.parsing` measures what taking an
answer apart adds to plain streaming, and `bench.cluster` measures on a Kubernetes.
"""
