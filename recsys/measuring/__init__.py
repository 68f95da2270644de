"""Scores become `metrics.json`; nothing in here trains."""
