"""The whole path: `conch up` against a direct gRPC client on the same Triton."""
