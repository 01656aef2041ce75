"""Pure: one module per runtime, from a ModelDeployment to what its Triton server needs.

What all runtimes share, the pod above all, is not here but in `resources`.
"""
