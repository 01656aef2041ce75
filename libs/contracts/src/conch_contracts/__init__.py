"""Pure data shared by every part of Conch: names, records, internal messages, API types."""
