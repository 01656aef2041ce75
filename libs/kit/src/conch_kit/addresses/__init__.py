"""Which of the addresses that users name Conch may connect to, and what they stand for at this moment."""
