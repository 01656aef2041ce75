"""The client side of HTTP/2 (RFC 9113) over plain TCP, as far as gRPC needs it."""
