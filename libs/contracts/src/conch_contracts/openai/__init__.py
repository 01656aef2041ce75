"""The OpenAI-shaped requests and answers that clients exchange with Conch, one resource per file.

The gateway validates with the request types and publishes all of them in its OpenAPI document. Types are strict: a
number in a string is an error, as is a boolean where a number belongs. A field enters here with the code that obeys it.
"""
