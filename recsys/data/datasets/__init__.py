"""Published data sets, one file a download, and generated ones."""
