"""Measures what Conch costs, against references that run in the same minutes on the same machine.

`bench.chain` compares the whole path with a direct gRPC client on the same Triton; `bench.relay` compares the gateway
with nginx before the same scripted worker. Ratios within one run travel between machines, absolute figures do not.
"""
