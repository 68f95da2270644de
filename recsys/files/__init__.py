"""Safe reading and writing: whole files or none, one writer a folder."""
