"""What is known about engines' pods: status, Events, why some are not made, and the agents inside.

Nothing here decides what to run.
"""
