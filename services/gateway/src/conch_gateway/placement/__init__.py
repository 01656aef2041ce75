"""Where a request runs: queues and slots of engines, choice of worker and tokenizer, and another try elsewhere."""
