"""Training: batches, optimizers, the fit, and going on with one."""
