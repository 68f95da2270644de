"""The report of a single run, one file a section; `recsys info` beside it."""
