"""What happens during a training, one callback a file, and their order."""
