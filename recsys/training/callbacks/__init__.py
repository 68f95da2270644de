"""Callbacks of a training, one a file, and their order."""
