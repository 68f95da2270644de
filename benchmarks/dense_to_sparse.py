"""How a gate that starts dense becomes sparse in training, epoch by epoch.

    python benchmarks/dense_to_sparse.py --data data/movielens-1m

Trains the MovieLens ranker with `execution="auto"` and prints one JSON line per
epoch, of the batches trained on with the weights at its end: experts per
example and task, rows in which a task has more than k, experts that carry more
than 0.1 % of the rows, batches within `pair_budget`, which run sparse on every
backend, and the milliseconds of a step. Epoch 0 is the untrained model. The
last line times a step of the trained model against the same model in dense
execution, side by side.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from side_by_side import medians

from keras_moe.layers import pair_budget
from keras_moe.layers import record_routing
from recsys import Dataset
from recsys import Ranker
from recsys import TrainConfig
from recsys import load
from recsys.models.build import build_ranker
from recsys.models.feeding import feed
from recsys.models.row_encoder import training_arrays
from recsys.training.batches import TrainingBatches
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config


def make_ranker(config: TrainConfig, dataset: Dataset) -> Ranker:
    keras.utils.set_random_seed(0)
    ranker = build_ranker(config, dataset)
    compile_model(ranker, config)
    return ranker


def count_batches(ranker: Ranker, inputs: Any, batch: int) -> dict[str, Any]:
    """What the gates do with batches, as the execution sees it."""
    gates = ranker.mixture.gates.values()
    pairs = sum(gate.max_pairs(batch) for gate in gates)
    budget = pair_budget(pairs)
    k = max(gate.k for gate in gates)
    chosen = []
    sparse = []
    for start in range(0, len(inputs["user"]) - batch + 1, batch):
        part = {name: x[start : start + batch] for name, x in inputs.items()}
        with record_routing() as records:
            ranker(part, training=False)
        weights = [
            keras.ops.convert_to_numpy(w) for w in records[0].weights.values()
        ]
        chosen.append(np.stack(weights) != 0)
        sparse.append(chosen[-1].sum() <= budget)
    experts = np.concatenate(chosen, axis=1)  # (tasks, rows, experts)
    counts = experts.sum(axis=-1)
    loads = experts.any(axis=0).mean(axis=0)
    return {
        "experts_per_example": round(float(counts.mean()), 3),
        "rows_above_k": round(float((counts > k).any(axis=0).mean()), 4),
        "experts_in_use": int((loads > 0.001).sum()),
        "sparse_batches": round(float(np.mean(sparse)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--gate", default="comet")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--train-rows", type=int)
    parser.add_argument("--sampled-batches", type=int, default=200)
    parser.add_argument("--timed-steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    dataset = load(options.data).with_train_rows(options.train_rows)
    config = TrainConfig(
        options.data,
        "unused",
        gate=options.gate,
        gate_options={"gamma": 10.0, "entropy_weight": 0.1},
        task_weights={"watch": 0.9, "rating": 0.1},
        batch_size=options.batch,
        unknown_rate=0.01,
        standardize_targets=False,
    )
    config = resolve_config(config, dataset.schema)
    ranker = make_ranker(config, dataset)
    split = dataset.split("train")
    inputs = ranker.encode(split)
    labels = {task: split[task].to_numpy() for task in ranker.tasks}

    def batches(rows: slice) -> TrainingBatches:
        return TrainingBatches(
            training_arrays(
                {name: x[rows] for name, x in inputs.items()},
                {task: y[rows] for task, y in labels.items()},
            ),
            config.batch_size,
            seed=0,
        )

    def fit(model: Ranker, batches: TrainingBatches) -> None:
        model.fit(feed(batches), shuffle=False, verbose=0)

    every_batch = batches(slice(None))
    sample = {
        name: x[: options.sampled_batches * config.batch_size]
        for name, x in inputs.items()
    }
    for epoch in range(options.epochs + 1):
        line: dict[str, Any] = {"epoch": epoch}
        if epoch:
            every_batch.shuffle(epoch)
            start = time.perf_counter()
            fit(ranker, every_batch)
            taken = 1e3 * (time.perf_counter() - start) / len(every_batch)
            line["ms_per_step"] = round(taken, 2)
        counts = count_batches(ranker, sample, config.batch_size)
        print(json.dumps({**line, **counts}), flush=True)
    dense = make_ranker(replace(config, execution="dense"), dataset)
    dense.set_weights(ranker.get_weights())
    timed = batches(slice(options.timed_steps * config.batch_size))
    times = medians(
        {
            "auto_ms": lambda: fit(ranker, timed),
            "dense_ms": lambda: fit(dense, timed),
        },
        options.runs,
    )
    steps = {name: time / options.timed_steps for name, time in times.items()}
    print(json.dumps({name: round(time, 2) for name, time in steps.items()}))


if __name__ == "__main__":
    main()
