"""Times a training step with a list of CNN experts, dense against sparse.

    KERAS_BACKEND=tensorflow python benchmarks/image_experts.py

Sixteen experts of DSelect-k's MultiMNIST model (appendix D) on 36 x 36 images,
four for an image by a Top-k gate on the pixels. Prints one JSON line.
"""

import argparse

import keras
import numpy as np
from keras import layers
from report import report
from side_by_side import compile_layer
from side_by_side import medians

from keras_moe.layers import MoE
from keras_moe.layers import TopKGate

SIDE = 36


def make_cnn() -> keras.Model:
    return keras.Sequential(
        [
            layers.Conv2D(10, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(20, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(50, activation="relu"),
            layers.Dense(50),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    images = rng.random((options.batch, SIDE, SIDE, 1)).astype("float32")
    pixels = images.reshape(options.batch, -1)
    steps = {}
    for execution in ("dense", "sparse"):
        mixture = MoE(
            TopKGate(options.experts, options.k, seed=0),
            [make_cnn() for _ in range(options.experts)],
            execution,
        )
        mixture.build(images.shape, pixels.shape)
        compiled = compile_layer(mixture, [images, pixels])
        steps[execution] = compiled["forward_backward"]
    times = medians(steps, options.runs)
    report(
        **vars(options),
        **{f"{name}_ms": round(time, 2) for name, time in times.items()},
        faster_than_dense=round(times["dense"] / times["sparse"], 2),
    )


if __name__ == "__main__":
    main()
