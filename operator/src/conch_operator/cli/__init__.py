"""The `conch` command: one module per subcommand, put together in `main`, which also starts `conch operator`."""
