"""The process beside each engine on Kubernetes: it knows the model's folder, and holds the engine until it may end."""
