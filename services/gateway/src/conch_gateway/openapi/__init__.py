"""The OpenAPI document, and the pieces from which endpoints describe themselves; it serves only `/openapi.json`."""
