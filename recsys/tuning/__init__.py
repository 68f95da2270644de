"""Sweeps: search spaces, trials and their choice."""
