"""What surrounds the work on every inference request: its intake, its counted stages, and its watchdog.

No endpoint is known here.
"""
