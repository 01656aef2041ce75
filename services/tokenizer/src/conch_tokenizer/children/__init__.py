"""Processes that may be killed: how they are forked, fed, limited and replaced. What they compute is in `text`."""
