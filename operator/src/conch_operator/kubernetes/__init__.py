"""The operator on Kubernetes: rounds under a Lease, and the ports of `reconcile` in terms of pods and objects.

Nothing outside this folder and `main` knows the API server; what objects look like is in `resources`.
"""
