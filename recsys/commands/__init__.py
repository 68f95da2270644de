"""The commands, one a file: each parses, calls a stage, prints."""
