"""The tensor contracts that the worker speaks, one module each: choices to engine calls, messages to deltas. Pure."""
