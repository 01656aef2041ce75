"""Pure: how long sound is cut into windows that an engine takes, and what an engine has left out of one."""
