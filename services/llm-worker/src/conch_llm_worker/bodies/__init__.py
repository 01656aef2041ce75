"""The JSON of answers: whole bodies, and the fields that frames share with them. Pure."""
