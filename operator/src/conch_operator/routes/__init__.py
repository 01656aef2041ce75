"""Pure: from a ModelDeployment and the facts of its folder to the route that the data plane reads.

When a route is written or withdrawn is decided in `reconcile`.
"""
