"""Which parameters and members each endpoint refuses by name, as data; `unsupported_parameters.py` obeys it."""
