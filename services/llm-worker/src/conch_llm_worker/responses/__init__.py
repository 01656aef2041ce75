"""Answers of the Responses API: output items as they grow, the object around them, and the events of a stream."""
