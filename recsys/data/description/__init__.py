"""A look at a data set before training, one kind of finding a file."""
