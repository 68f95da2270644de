"""Times a training step with a list of layers as experts, dense against sparse.

    KERAS_BACKEND=tensorflow python benchmarks/list_experts.py --kind cnn dense

`cnn`: experts of DSelect-k's MultiMNIST model (appendix D) on 36 x 36 images.
`dense`: single Dense 256 layers. A Top-k gate is told by scores how to route.
Prints one JSON line for every combination of the arguments: medians in
milliseconds, forward and forward + backward.
"""

import argparse
import itertools
from typing import Any

import keras
import numpy as np
from execution_variants import ScoredMixture
from keras import layers
from report import report
from routing_scores import ROUTINGS
from routing_scores import make_scores
from side_by_side import compile_layer
from side_by_side import medians


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


def make_dense() -> keras.layers.Layer:
    return layers.Dense(256, activation="relu")


# How an expert is made, and the shape of its inputs.
KINDS = {"cnn": (make_cnn, (36, 36, 1)), "dense": (make_dense, (256,))}


def measure(
    kind: str, num_experts: int, k: int, options: argparse.Namespace
) -> dict[str, Any]:
    make_expert, shape = KINDS[kind]
    rng = np.random.default_rng(0)
    inputs = rng.random((options.batch, *shape)).astype("float32")
    scores = make_scores(options.routing, options.batch, num_experts, k, 1)
    steps = {}
    for execution in ("dense", "sparse"):
        experts = [make_expert() for _ in range(num_experts)]
        mixture = ScoredMixture(num_experts, k, 1, execution, experts)
        mixture.build(inputs.shape, scores[0].shape)
        steps[execution] = compile_layer(mixture, [inputs, *scores])
    result = {}
    for step in ("forward", "forward_backward"):
        times = medians(
            {name: functions[step] for name, functions in steps.items()},
            options.runs,
        )
        result[step] = {f"{name}_ms": round(t, 2) for name, t in times.items()}
        ratio = times["dense"] / times["sparse"]
        result[step]["faster_than_dense"] = round(ratio, 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default=["cnn"], nargs="+", choices=KINDS)
    parser.add_argument("--experts", default=[16], type=int, nargs="+")
    parser.add_argument("--k", default=[4], type=int, nargs="+")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--routing", default="balanced", choices=ROUTINGS)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    grid = itertools.product(options.kind, options.experts, options.k)
    for kind, num_experts, k in grid:
        report(
            kind=kind,
            experts=num_experts,
            k=k,
            batch=options.batch,
            routing=options.routing,
            **measure(kind, num_experts, k, options),
        )


if __name__ == "__main__":
    main()
