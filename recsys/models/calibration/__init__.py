"""Calibration of binary tasks after training.

A method is one file with a `Calibrator`, and a line in `calibration.py`.
"""
