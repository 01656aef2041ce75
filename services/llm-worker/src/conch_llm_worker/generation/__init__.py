"""The state of one choice while it is made, from ids or from text, until something ends it. Pure."""
