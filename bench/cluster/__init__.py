"""Measures Conch on a Kubernetes: how soon an applied model answers, and what the ingress adds to each event."""
