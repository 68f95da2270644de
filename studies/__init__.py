"""The papers' experiments on Transformers and perceptrons, a file each."""
