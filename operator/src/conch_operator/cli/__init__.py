"""The `conch` command: one module per subcommand, put together in `main`, which also starts `conch operator`.

Only this folder prints for the one who typed the command and decides exit statuses.
"""
