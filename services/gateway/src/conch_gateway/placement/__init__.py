"""Where a request runs: queues and slots of engines, choice of worker and tokenizer, and another try elsewhere.

Messages and answers pass unread, but for errors.
"""
