"""The cluster that is this machine: processes instead of pods, a folder instead of a volume."""
