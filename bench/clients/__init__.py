"""The load clients: processes of their own, driven over stdin and stdout by `remote`."""
