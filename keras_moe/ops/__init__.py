"""Pure functions on `keras.ops`."""
