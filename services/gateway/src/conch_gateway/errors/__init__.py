"""The errors that the gateway answers with, in their words: for bad requests, and for what other services refused.

The classes of errors and their statuses are kit's.
"""
