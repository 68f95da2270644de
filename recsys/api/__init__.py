"""The functions of `recsys`, one a file: train, tune, evaluate and so on."""
