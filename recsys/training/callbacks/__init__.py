"""What happens during a training, one callback a file."""
