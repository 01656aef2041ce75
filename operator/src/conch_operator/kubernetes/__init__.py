"""The operator on Kubernetes: its API client, its Lease, and the ports of `reconcile` in terms of pods and objects."""
