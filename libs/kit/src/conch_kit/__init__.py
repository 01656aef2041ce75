"""Process plumbing that every service shares; it knows the contracts and no service."""
