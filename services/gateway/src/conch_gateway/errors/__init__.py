"""The errors that the gateway answers with, in their words: for bad requests, and for what other services refused."""
