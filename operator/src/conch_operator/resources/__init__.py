"""Pure: the Kubernetes objects that are made for a model, as plain dictionaries, one module per object or container.

Nothing here calls the API server; `kubernetes` applies them.
"""
