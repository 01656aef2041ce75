"""The cluster that is this machine, for `conch up`: processes instead of pods, a folder instead of a volume.

Nothing here knows Kubernetes; what both clusters share is in `reconcile`, `probe`, `routes` and `triton`.
"""
