"""Brings a model's files from the Hub or a bucket into a folder: the same code in a pod and on a laptop.

It runs as a process of its own, `conch-download`, and says what went wrong in its last line.
"""
