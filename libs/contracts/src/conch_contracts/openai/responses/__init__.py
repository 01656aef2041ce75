"""The Responses API: its request and answer, the items of both, and the events of a stream."""
