"""What the gateway measures and logs of its requests; nothing here decides anything."""
