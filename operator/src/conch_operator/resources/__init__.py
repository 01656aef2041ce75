"""Pure: the Kubernetes objects that are made for a model, as plain dictionaries."""
