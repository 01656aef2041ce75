"""EnginePools on Kubernetes: their objects, the pods with their servers and agents, and what is said about them."""
