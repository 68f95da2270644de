"""Where the schedules of the permutation search end, and what they are worth.

    python benchmarks/search_schedules.py --random
    KERAS_BACKEND=jax python benchmarks/search_schedules.py \
        --data data/movielens-1m-subsample --out runs/schedules.csv

`--random`: from random logits U(-0.05, 0.05) that are not trained, how far the
matrix at the end of a search is from the nearest permutation, and how often it
is that of the logits' own linear assignment.

`--data`: trainings of Hash-r and Hash-r+ with either schedule, paired by seed,
in one process: the ranker of `recsys train`, on fewer rows and narrower than
published. Losses are those of the test split after the last epoch. Runs that
`--out` has already are not repeated.
"""

import argparse
import csv
import itertools
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from keras_moe.callbacks import PermutationSearch
from keras_moe.layers import SinkhornPermutation
from recsys import Dataset
from recsys import TrainConfig
from recsys import load
from recsys.models.build import build_ranker
from recsys.models.feeding import feed
from recsys.models.row_encoder import training_arrays
from recsys.training.batches import TrainingBatches
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config

SCHEDULES = ("published", "annealed")
MODELS = (*SCHEDULES, "Hash-r")
PAIRS = (
    ("published", "Hash-r"),
    ("annealed", "Hash-r"),
    ("annealed", "published"),
)
WATCH, RATING = 0.9, 0.1
EPOCHS, SEARCH_EPOCHS = 2, 1

Line = dict[str, Any]


def random_ends(schedule: str, num_experts: int, starts: int) -> Line:
    """Hardens matrices of random logits at the end of a search."""
    layer = SinkhornPermutation(num_experts, schedule=schedule)
    layer.build((None, num_experts))
    layer.num_steps.assign(1)
    layer.step.assign(1)
    distances, is_best = [], []
    generator = np.random.default_rng(0)
    for _ in range(starts):
        logits = generator.uniform(-0.05, 0.05, (num_experts, num_experts))
        layer.logits.assign(logits)
        distances.append(layer.harden())
        order = keras.ops.convert_to_numpy(layer.order)
        # The layer applies the transpose of the logits' matrix.
        best = linear_sum_assignment(logits.T, maximize=True)[1]
        is_best.append((order == best).all())
    return {
        "schedule": schedule,
        "experts": num_experts,
        "starts": starts,
        "largest": max(distances),
        "median": float(np.median(distances)),
        "below 1e-3": float(np.mean(np.array(distances) < 1e-3)),
        "assignment of the logits": float(np.mean(is_best)),
    }


def train(
    name: str, seed: int, dataset: Dataset, options: argparse.Namespace
) -> Line:
    """Trains one of `MODELS` and measures it on the test split."""
    config = resolve_config(
        TrainConfig(
            options.data,
            "unused",
            gate="hash" if name == "Hash-r" else "hash+",
            preset="movielens",
            seed=seed,
            search_schedule="published" if name == "Hash-r" else name,
            search_epochs=SEARCH_EPOCHS,
            search_entropy_weight=1e-5,
            embedding_dim=options.embedding_dim,
            expert_units=[options.units],
            task_weights={"watch": WATCH, "rating": RATING},
            unknown_rate=0,
            batch_size=options.batch,
            learning_rate=options.learning_rate,
        ),
        dataset.schema,
    )
    keras.utils.set_random_seed(seed)
    ranker = build_ranker(config, dataset)
    compile_model(ranker, config)
    split = dataset.split("train")
    batches = TrainingBatches(
        training_arrays(
            ranker.encode(split),
            {task: split[task].to_numpy() for task in ranker.tasks},
        ),
        config.batch_size,
        seed=seed,
    )
    searches = [] if name == "Hash-r" else [PermutationSearch(SEARCH_EPOCHS)]
    shuffle = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: batches.shuffle(epoch, 0)
    )
    ranker.fit(
        feed(batches),
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[shuffle, *searches],
    )
    test = dataset.split("test")
    scores = ranker.predict(ranker.encode(test), batch_size=4096, verbose=0)
    distances = [max(search.distances.values()) for search in searches]
    return {
        "model": name,
        "seed": seed,
        "loss": test_loss(test, scores),
        "permutation distance": distances[0] if distances else "",
    }


def test_loss(test: pd.DataFrame, scores: dict[str, np.ndarray]) -> float:
    """α times the binary cross-entropy plus 1 - α times the squared error."""
    watch = test["watch"].to_numpy()
    p = np.clip(np.ravel(scores["watch"]).astype("float64"), 1e-7, 1 - 1e-7)
    entropy = -np.mean(watch * np.log(p) + (1 - watch) * np.log(1 - p))
    errors = test["rating"].to_numpy() - np.ravel(scores["rating"])
    return float(WATCH * entropy + RATING * np.nanmean(errors**2))


def read(out: Path) -> list[dict[str, str]]:
    """Returns the runs that a file has."""
    if not out.exists():
        return []
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def append(out: Path, row: Line) -> None:
    """Adds a run to a file, and the header to a new one."""
    is_new = not out.exists()
    with out.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, row)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def summary(rows: list[dict[str, str]]) -> list[Line]:
    """Returns each model's losses x 100, and the differences by seed."""
    losses: dict[str, dict[int, float]] = {name: {} for name in MODELS}
    for row in rows:
        losses[row["model"]][int(row["seed"])] = 100 * float(row["loss"])
    lines = [
        {"model": name, **mean_and_error(list(found.values()))}
        for name, found in losses.items()
    ]
    for first, second in PAIRS:
        seeds = losses[first].keys() & losses[second].keys()
        gains = [losses[first][seed] - losses[second][seed] for seed in seeds]
        lower = sum(gain < 0 for gain in gains)
        pair = f"{first} - {second}"
        lines.append({"pair": pair, **mean_and_error(gains), "lower": lower})
    return lines


def mean_and_error(values: list[float]) -> Line:
    error = np.std(values, ddof=1) / len(values) ** 0.5
    return {
        "mean": round(float(np.mean(values)), 3),
        "error": round(float(error), 3),
        "of": len(values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--random", action="store_true")
    add("--experts", type=int, default=16)
    add("--starts", type=int, default=1000)
    add("--data")
    add("--out", type=Path, default=Path("search_schedules.csv"))
    add("--seeds", type=int, default=16)
    add("--train-rows", type=int, default=25_000)
    add("--batch", type=int, default=64)
    add("--learning-rate", type=float, default=2.5e-4)
    add("--embedding-dim", type=int, default=64)
    add("--units", type=int, default=128)
    options = parser.parse_args()
    if options.random:
        for schedule in SCHEDULES:
            line = random_ends(schedule, options.experts, options.starts)
            print(json.dumps(line), flush=True)
        return
    dataset = load(options.data).with_train_rows(options.train_rows)
    done = {(row["model"], int(row["seed"])) for row in read(options.out)}
    seeds = range(options.seeds)
    # Pairs first.
    for seed, name in [
        *itertools.product(seeds, SCHEDULES),
        *itertools.product(seeds, ["Hash-r"]),
    ]:
        if (name, seed) not in done:
            row = train(name, seed, dataset, options)
            append(options.out, row)
            print(json.dumps(row), flush=True)
    for line in summary(read(options.out)):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
