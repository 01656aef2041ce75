"""What is known about engines' pods: their status, events, refusals, and the agents inside."""
