"""What a server tells of its requests: metrics, an access log, a sample."""
