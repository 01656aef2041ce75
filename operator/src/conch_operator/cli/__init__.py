"""The `conch` command: one module per subcommand, put together in `main`, which also starts `conch operator`.

Only this folder decides exit statuses. What `conch up` says while it runs is printed by `local.console`.
"""
