"""Reports and comparisons of runs, one file a section."""
