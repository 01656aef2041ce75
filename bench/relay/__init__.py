"""The gateway alone: against nginx as a plain proxy, both before the same scripted worker."""
