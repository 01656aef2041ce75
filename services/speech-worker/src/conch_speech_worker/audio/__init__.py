"""From a file as a client sent it to samples: a child decodes, since files are made to break decoders."""
