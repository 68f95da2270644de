"""The commands, one a file: each parses, calls the API, prints."""
