"""Makes the OpenAPI document of the gateway: FastAPI writes it from functions that stand for the endpoints.

The functions have the docstrings, the types and the errors of what the gateway serves, and are never called.
"""
