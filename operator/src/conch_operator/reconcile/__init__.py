"""One round of the operator: observe, plan, act, publish, describe.

`reconciler` acts and `withdrawals` remembers; all else is pure. Nothing here knows processes or Kubernetes.
"""
