r"""Compares models of scenarios on rows that share a structure.

    KERAS_BACKEND=torch python benchmarks/planted_scenarios.py

Rows of eight countries have a vector x of 16 numbers, and a click with the
probability sigmoid(s_p · h(x) + b_p): every country has the same 6 hidden units
h(x) = 2 tanh(2 A x), and weighs them in its own way, s_p. Two countries have
4,000 training rows, two 2,000, two 500 and two 200, a third as many for
validation, and 2,000 each for the test.

    pooled      one model of all rows, the country an id feature,
    separate    a model of each country,
    pepnet      one model, `--scenario-model pepnet`,
    star        one model, `--scenario-model star`.

All have the same options otherwise. Prints a JSON line for each training, and
a Markdown table: the mean test loss of all countries and of the half with the
fewest rows, means over the seeds ± standard errors, and how much lower they
are than those of `pooled` and `separate`, paired by seed. Each seed draws other
data.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pandas as pd
from report import report

from recsys import Ranker
from recsys import TrainConfig
from recsys.config.train_config import SCENARIO_MODELS
from recsys.data import Dataset
from recsys.data import Schema
from recsys.models.build import build_ranker
from recsys.models.scorer import Scorer
from recsys.reporting.statistics import mean_and_error
from recsys.training.resolve_config import resolve_config

SIZES = (4000, 4000, 2000, 2000, 500, 500, 200, 200)
TEST_ROWS = 2000
MODELS = ("pooled", "separate", "pepnet", "star")
WIDTH, UNITS = 16, 6
SCHEMA = Schema(
    "planted-scenarios",
    {"country": "id", "x": {"type": "vector", "size": WIDTH}},
    {"click": "binary"},
    scenario="country",
)
OPTIONS: dict[str, Any] = {
    "architecture": "shared-bottom",
    "bottom_units": [32],
    "expert_dropout": 0.0,
    "head_units": [32],
    "embedding_dim": 4,
}
BATCH_SIZE, LEARNING_RATE, EPOCHS, PATIENCE = 512, 0.005, 60, 6


def planted(seed: int, sizes: Sequence[int], test_rows: int) -> Dataset:
    """Draws the data of a seed.

    Args:
        seed: Of the structure and of the rows.
        sizes: Training rows of each country.
        test_rows: Test rows of each country.
    """
    rng = np.random.default_rng(seed)
    structure = rng.normal(size=(WIDTH, UNITS)) / np.sqrt(WIDTH)
    scenarios = rng.normal(size=(len(sizes), UNITS))
    biases = rng.normal(scale=0.5, size=len(sizes))

    def rows_of(country: int, count: int) -> pd.DataFrame:
        x = rng.normal(size=(count, WIDTH)).astype("float32")
        hidden = 2 * np.tanh(2 * x @ structure)
        logits = hidden @ scenarios[country] + biases[country]
        clicks = rng.random(count) < 1 / (1 + np.exp(-logits))
        return pd.DataFrame(
            {
                "country": f"country-{country}",
                "x": list(x),
                "click": clicks.astype(float),
            }
        )

    splits = {"train": 1.0, "validation": 1 / 3, "test": None}
    return Dataset(
        SCHEMA,
        {
            split: pd.concat(
                [
                    rows_of(
                        country,
                        round(size * share) if share else test_rows,
                    )
                    for country, size in enumerate(sizes)
                ],
                ignore_index=True,
            )
            for split, share in splits.items()
        },
    )


def of_country(dataset: Dataset, country: str) -> Dataset:
    """The rows of one country."""
    return replace(
        dataset,
        splits={
            name: rows[rows["country"] == country].reset_index(drop=True)
            for name, rows in dataset.splits.items()
        },
    )


def trained(dataset: Dataset, seed: int, scenario_model: str) -> Ranker:
    """Trains until the validation loss has not fallen for some epochs."""
    keras.utils.set_random_seed(seed)
    config = TrainConfig(
        SCHEMA.name, "", scenario_model=scenario_model, **OPTIONS
    )
    ranker = build_ranker(resolve_config(config, SCHEMA), dataset)
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    ranker.compile(optimizer, {"click": ranker.loss_of("click")})
    inputs, held = (
        (ranker.encode(rows), {"click": rows[["click"]].to_numpy("float32")})
        for rows in (dataset.split("train"), dataset.split("validation"))
    )
    best = keras.callbacks.EarlyStopping(
        patience=PATIENCE, restore_best_weights=True
    )
    ranker.fit(
        *inputs,
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        validation_data=held,
        validation_batch_size=4096,
        callbacks=[best],
        verbose=0,
    )
    return ranker


def losses(ranker: Ranker, dataset: Dataset) -> np.ndarray:
    """The log loss of each test row."""
    rows = dataset.split("test")
    scores = Scorer(ranker).score(rows).predictions["click"]
    of_label = np.where(rows["click"] == 1, scores, 1 - scores)
    return -np.log(np.maximum(of_label, 1e-7))


def run(model: str, dataset: Dataset, seed: int) -> tuple[np.ndarray, int]:
    """Losses of one of `MODELS` by test row, and its parameters."""
    parts = [dataset]
    if model == "separate":
        countries = dataset.split("train")["country"].unique()
        parts = [of_country(dataset, country) for country in countries]
    scenario_model = model if model in SCENARIO_MODELS else "none"
    rankers = [trained(part, seed, scenario_model) for part in parts]
    found = [
        losses(ranker, part)
        for ranker, part in zip(rankers, parts, strict=True)
    ]
    count = sum(
        int(np.prod(weight.shape))
        for ranker in rankers
        for weight in ranker.trainable_weights
    )
    return np.concatenate(found), count  # Test rows are in order of countries.


def table(lines: pd.DataFrame) -> str:
    """The means and paired differences over the seeds, in Markdown."""
    text = [
        "| model | parameters | test loss | of few rows | under pooled | "
        "under separate |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    by_model = {
        model: rows.set_index("seed")
        for model, rows in lines.groupby("model", sort=False)
    }
    for model, rows in by_model.items():
        cells = [
            mean_and_error(rows[name].tolist(), 4) for name in ("loss", "few")
        ]
        cells += [
            mean_and_error((by_model[other]["loss"] - rows["loss"]).tolist(), 4)
            if other in by_model and other != model
            else ""
            for other in MODELS[:2]
        ]
        count = f"{rows['parameters'].iloc[0]:,}"
        text.append(f"| {' | '.join([str(model), count, *cells])} |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    for name in ("bottom", "head"):
        parser.add_argument(f"--{name}-units", type=int, nargs="*")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    options = parser.parse_args()
    for name in ("bottom_units", "head_units"):
        if getattr(options, name) is not None:
            OPTIONS[name] = getattr(options, name)
    count = len(options.sizes)
    lines = []
    for seed in range(options.seeds):
        dataset = planted(seed, options.sizes, TEST_ROWS)
        for model in options.models:
            start = time.process_time()
            found, parameters = run(model, dataset, seed)
            by_country = found.reshape(count, TEST_ROWS).mean(axis=1)
            lines.append(
                {
                    "model": model,
                    "seed": seed,
                    "parameters": parameters,
                    "loss": float(by_country.mean()),
                    "few": float(by_country[count // 2 :].mean()),
                }
            )
            seconds = round(time.process_time() - start, 1)
            report(**lines[-1], cpu_seconds=seconds)
    print(table(pd.DataFrame(lines)))


if __name__ == "__main__":
    main()
