"""Times two ways to find the leaves of COMET's trees at inference.

    KERAS_BACKEND=tensorflow python benchmarks/comet_descent.py

Once trained, every split of a COMET gate decides, so that a leaf is found by
log2(n) splits a tree instead of all n - 1. Prints one JSON line for every n:
milliseconds of all splits by one matmul, and of the descent, which gathers the
vector of each split that a row meets.
"""

import argparse
from typing import Any

import keras
import numpy as np
from keras import ops
from report import report
from side_by_side import compile_layer
from side_by_side import medians


class AllSplits(keras.layers.Layer):
    """Logits of every split of every tree, `(rows, trees, n - 1)`."""

    def __init__(self, trees: int, leaves: int) -> None:
        super().__init__()
        self.trees = trees
        self.leaves = leaves

    def build(self, shape: Any) -> None:
        self.splits = self.add_weight(
            name="splits",
            shape=(self.trees * (self.leaves - 1), shape[-1]),
            initializer="random_normal",
        )

    def call(self, inputs: Any) -> Any:
        logits = ops.matmul(inputs, ops.transpose(self.splits))
        return ops.reshape(logits, (-1, self.trees, self.leaves - 1))


class Descent(AllSplits):
    """The leaf that each row reaches in each tree, `(rows, trees)`."""

    def call(self, inputs: Any) -> Any:
        inner = self.leaves - 1
        first = ops.arange(self.trees, dtype="int32") * inner
        node = ops.zeros((inputs.shape[0], self.trees), "int32")
        while inner > 0:
            split = ops.take(self.splits, first + node, axis=0)
            logit = ops.sum(split * inputs[:, None], axis=-1)
            node = 2 * node + 1 + ops.cast(logit > 0, "int32")
            inner //= 2
        return ops.cast(node, "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--experts", type=int, nargs="+", default=[16, 128, 1024]
    )
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 512, 8192])
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    for num_experts in options.experts:
        for rows in options.rows:
            shape = (rows, options.width)
            x = np.random.default_rng(0).normal(size=shape).astype("float32")
            functions = {}
            for way in (AllSplits, Descent):
                layer = way(options.k, num_experts)
                layer.build(shape)
                functions[way.__name__] = compile_layer(layer, [x])["forward"]
            times = medians(functions, runs=9)
            report(
                n=num_experts,
                k=options.k,
                rows=rows,
                all_splits_ms=round(times["AllSplits"], 3),
                descent_ms=round(times["Descent"], 3),
            )


if __name__ == "__main__":
    main()
