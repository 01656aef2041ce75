"""The process beside each engine on Kubernetes: it reads the model's folder, and holds the engine until it may end.

It knows one pod, and neither the API server nor the registry; the operator asks it over HTTP.
"""
