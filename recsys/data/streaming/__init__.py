"""Splits read a few rows at a time, so that they may exceed the memory."""
