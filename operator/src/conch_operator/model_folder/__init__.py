"""Reads what a model's folder says: its files as facts, or what is wrong with them.

Blocks on the disk. What facts mean for a route is not decided here.
"""
