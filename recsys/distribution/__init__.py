"""Training on several devices, and by several processes."""
