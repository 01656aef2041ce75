"""Pure: one module per runtime, from a ModelDeployment to what its Triton server needs."""
