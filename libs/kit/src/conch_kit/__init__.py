"""Process plumbing for Conch services: settings, logs, metrics, registry, Triton client."""
