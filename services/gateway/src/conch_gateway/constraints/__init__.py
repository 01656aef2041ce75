"""What an answer must look like, as grammars: structured outputs and calls of tools. Pure; compiles nothing."""
