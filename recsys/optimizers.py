"""The optimizers that a ranker can be trained with, by name in Keras."""

from typing import Any

# What each gets beside the learning rate. Adagrad's accumulators start at 0.1
# in TensorFlow, which the papers train in, and so with Keras.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {},
    "adagrad": {"initial_accumulator_value": 0.1},
}
