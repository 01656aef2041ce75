"""Brings a model's files from the Hub or a bucket into a folder: the same code in a pod and on a laptop.

It runs as a process of its own, `conch-download`, whose last line says what went wrong. It knows neither Kubernetes nor
the registry: others name the source, the folder and which files are wanted.
"""
