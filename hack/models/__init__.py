"""Makes the example models that this project trained itself; nothing of Conch needs it at run time."""
