"""How long the operator keeps a pod serving that is to end, whoever its engines are for; its agent holds it longer."""

LONGEST_HOLD_S = 30.0
"""While what replaces it starts."""
ALONE_S = 10.0
"""When nothing comes to replace it, because its namespace or its pool is deleted for instance."""
