"""What `recsys.promote` checks, one file per section."""
