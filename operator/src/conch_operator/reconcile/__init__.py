"""One round of the operator: observe, plan, act, publish, describe.

Everything but `reconciler` is pure. Nothing here knows processes or Kubernetes.
"""
