"""Compresses a model trained on the synthetic data, in every way.

    KERAS_BACKEND=torch python benchmarks/smaller_models.py --out OUT

Trains a ranker with `recsys.train`, and prints one JSON line for it and for
every smaller model: bytes of the experts and of all weights, the loss of the
test split (BCE of `watch` plus MSE of `rating`, halved), its largest change of
a prediction on 4,096 rows, and the median milliseconds of `predict_on_batch`,
for which all models are called in turn.
"""

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
from report import report
from side_by_side import medians

import recsys
from keras_moe.compress import Report
from keras_moe.compress import merge
from keras_moe.compress import prune
from keras_moe.compress import quantize

Compressed = tuple[keras.Model, Report]
ROWS = 4096
BATCHES = (1, 4096)


def compressed(
    model: keras.Model, inputs: dict[str, np.ndarray], sizes: list[int]
) -> dict[str, keras.Model]:
    """The model and its smaller versions by name."""
    models = {"as trained": model, "int8": quantize(model)[0]}
    ways: dict[str, Callable[..., Compressed]] = {
        "pruned": prune,
        "merged": merge,
    }
    for size in sizes:
        for name, way in ways.items():
            smaller, _ = way(model, inputs, size)
            models[f"{name} to {size}"] = smaller
            models[f"{name} to {size}, int8"] = quantize(smaller)[0]
    return models


def num_bytes(layer: keras.layers.Layer) -> int:
    return sum(
        int(np.prod(weight.shape)) * np.dtype(weight.dtype).itemsize
        for weight in layer.weights
    )


def loss(predictions: pd.DataFrame, labels: pd.DataFrame) -> float:
    watch = np.where(
        labels["watch"] == 1, predictions["watch"], 1 - predictions["watch"]
    )
    errors = (predictions["rating"] - labels["rating"]).dropna()
    return float(-np.log(watch).mean() + np.square(errors).mean()) / 2


def measure(models: dict[str, Any], dataset: Any, runs: int) -> None:
    rows = dataset.split("test")
    first = models["as trained"]
    inputs = first.encode(rows)
    expected = first.predict(rows)
    times = {}
    for batch in BATCHES:
        few = {feature: array[:batch] for feature, array in inputs.items()}
        calls = {
            name: functools.partial(model.predict_on_batch, few)
            for name, model in models.items()
        }
        times[batch] = medians(calls, runs)
    for name, model in models.items():
        predictions = model.predict(rows)
        changes = (predictions - expected)[:ROWS].abs()
        report(
            model=name,
            expert_bytes=num_bytes(model.mixture.experts),
            model_bytes=num_bytes(model),
            loss=loss(predictions, rows),
            largest_change=float(changes.to_numpy().max()),
            **{f"ms_{batch}": times[batch][name] for batch in BATCHES},
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="run folder")
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--gate", default="top-k")
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--units", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 4])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    if not (given.out / "metrics.json").is_file():
        recsys.train(
            {
                "data": given.data,
                "out": str(given.out),
                "gate": given.gate,
                "num_experts": given.experts,
                "k": 2,
                "expert_units": given.units,
                "epochs": given.epochs,
            }
        )
    ranker, dataset = recsys.load_ranker(given.out), recsys.load(given.data)
    sample = dataset.split("validation")[:ROWS]
    models = compressed(ranker, ranker.encode(sample), given.sizes)
    measure(models, dataset, given.runs)


if __name__ == "__main__":
    main()
