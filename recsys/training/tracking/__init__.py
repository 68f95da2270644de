"""Experiment trackers, which `recsys train --track` writes to.

A tracker is one file with a class derived from `Tracker`, and a line in
`TRACKERS` of `recsys.config.trackers`. Its package is imported where it is
asked for.
"""
