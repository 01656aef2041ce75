"""What tells the operator that something has changed, and whether that still works."""
