"""Reconciles ModelDeployments into engines, workers and routes; holds the conch command."""
