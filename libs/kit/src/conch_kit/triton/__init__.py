"""Clients of Triton over gRPC and HTTP: tensors, models' configs, one stream for each request, and its errors."""
