"""Speaking with Triton: tensors in protobuf, one gRPC stream per request, errors of ours."""
