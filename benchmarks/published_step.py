"""A training step of the published COMET code, an epoch for every line read.

    TF_USE_LEGACY_KERAS=1 python benchmarks/published_step.py CHECKOUT

`ranker_step.py --published CHECKOUT` starts it and takes turns with it: the
code is written for Keras 2, which is not to be had in a process of Keras 3.

CHECKOUT is a clone of https://github.com/mazumder-lab/COMET, needed are
`tensorflow` and `tf_keras`. Of it come the embeddings, the experts (Dense 256,
ReLU, dropout 0.5), the gates and the heads, with the settings of its
`config/model_config/movielens2M`; they are put together as its model does, and
trained by a `tf.function` of a gradient tape and Adam as its trainer does. Adam
is that of the TensorFlow that it was written for, a fused kernel. Left out, to
its advantage: metrics of tasks, and the mask of missing labels.
"""

import argparse
import sys
from importlib.util import module_from_spec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

USERS, ITEMS, WIDTH = 6041, 3953, 128
GATES = {"comet": ("comet", "COMETGate"), "top-k": ("topk", "TopkGate")}
HEADS = (
    ("dense_classifier", "DenseClassifier"),
    ("dense_regressor", "DenseRegressor"),
)
TASK_WEIGHTS = (0.9, 0.1)


def load_class(checkout: Path, file: str, name: str) -> Any:
    """A class of one file; its packages would import much that is not used."""
    spec = spec_from_file_location(f"published_{name}", checkout / file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Model(tf.keras.Model):
    """The published ranker: all experts on all rows, a gate and head a task."""

    def __init__(self, checkout: Path, gate: str, n: int, k: int) -> None:
        super().__init__()
        self.bottom = load_class(
            checkout,
            "model/shared_bottoms/"
            "dense_bottom_with_concatenated_embeddings_no_dense.py",
            "DenseBottomWithConcatenatedEmbeddingsNoDense",
        )(
            {
                "embedding1_vocab_size": USERS,
                "embedding1_size": WIDTH,
                "embedding2_vocab_size": ITEMS,
                "embedding2_size": WIDTH,
            }
        )
        expert = load_class(
            checkout,
            "model/experts/dense_expert_dropout.py",
            "DenseExpertDropout",
        )
        self.experts = [
            expert({"dense1_size": 256, "dropout1_rate": 0.5}) for _ in range(n)
        ]
        file, name = GATES[gate]
        make_gate = load_class(checkout, f"model/gates/{file}.py", name)
        if not hasattr(make_gate, "L2"):
            make_gate.L2 = 0.0  # It is read, but nothing sets it.
        settings = {
            "nb_experts": n,
            "k": k,
            "gamma": 1.0,
            "entropy_reg": 0.05,
            "z_initializer": None,
            "w_initializer": None,
            "jitter": False,
        }
        self.gates = [make_gate({**settings, "task": task}) for task in (0, 1)]
        self.heads = [
            load_class(checkout, f"model/task_specific_heads/{file}.py", name)(
                {"dense1_size": 256, "n_labels": 1}
            )
            for file, name in HEADS
        ]
        self.no_permutation = tf.eye(n, batch_shape=[k])

    def call(self, ids: Any, training: Any = None) -> list[Any]:
        features = self.bottom(ids)
        outputs = [one(features, training=training) for one in self.experts]
        seen = (outputs, features, self.no_permutation)
        return [
            head(gate(seen, training=training))
            for gate, head in zip(self.gates, self.heads, strict=True)
        ]


def make_step(model: Model) -> Any:
    """The training step, of ids `(batch, 2)` and the labels of both tasks."""
    losses = [
        tf.keras.losses.BinaryCrossentropy(),
        tf.keras.losses.MeanSquaredError(),
    ]
    optimizer = tf.keras.optimizers.legacy.Adam(1e-4)

    @tf.function
    def step(ids: Any, *labels: Any) -> Any:
        with tf.GradientTape() as tape:
            predictions = model(ids, training=True)
            parts = zip(TASK_WEIGHTS, losses, labels, predictions, strict=True)
            total = sum(
                weight * loss(true, predicted)
                for weight, loss, true, predicted in parts
            )
            total += sum(model.losses)
        weights = model.trainable_weights
        gradients = tape.gradient(total, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return total

    return step


def make_batches(batch: int, steps: int) -> Any:
    rng = np.random.default_rng(0)
    rows = batch * steps
    ids = [rng.integers(1, size, rows) for size in (USERS, ITEMS)]
    arrays = (
        np.stack(ids, axis=1).astype("int32"),
        rng.integers(0, 2, (rows, 1)).astype("float32"),
        rng.uniform(1, 5, (rows, 1)).astype("float32"),
    )
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch).prefetch(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--gate", choices=GATES, default="comet")
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    step = make_step(
        Model(options.checkout, options.gate, options.experts, options.k)
    )
    batches = make_batches(options.batch, options.steps)
    for _ in sys.stdin:
        for arrays in batches:
            loss = step(*arrays)
        print(float(loss), flush=True)


if __name__ == "__main__":
    main()
