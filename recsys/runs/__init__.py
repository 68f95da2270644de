"""A run folder and its files."""
