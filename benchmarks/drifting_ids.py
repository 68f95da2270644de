"""Trains day by day on a log whose ids drift, with bounded and growing tables.

    KERAS_BACKEND=torch python benchmarks/drifting_ids.py --out OUT

Of 1,000 users (texts) and 1,000 items (integers above 2^53), 5 % are replaced
by new ones after each day. A user clicks with the logistic function of a
bias of the user, twice one of the item, and a product of two vectors. Each day
has `--rows` rows; the model of a day is tested on those of the next one. Two
chains of runs go on from day to day as by `--from`, but for reports and
metrics: `all` keeps all ids, `bounded` has `--max-rows` rows per table and
evicts ids after 10 days. An item enters after 2 occurrences.

Prints one JSON line per day and chain with the ids of each table, the log loss
on the next day and the sizes of the model and the optimizer state; at the end
the mean losses over the second half of the days, their mean difference, bounded
less all, and the standard error of that over the days.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recsys import TrainConfig
from recsys.config.resolved_config import LAST
from recsys.data import Dataset
from recsys.data import Schema
from recsys.runs.run import Run
from recsys.training.resolve_config import resolve_config
from recsys.training.train_model import train_model
from recsys.training.warm_start import WarmStart

ACTIVE, REPLACED = 1_000, 0.05
SCHEMA = Schema(
    "drifting ids",
    {"user": "id", "item": {"type": "id", "min_count": 2}},
    {"click": "binary"},
)
TRAINING = {
    "gate": "softmax",
    "epochs": 1,
    "select": LAST,
    "learning_rate": 0.02,
    "table_optimizer": "lazy-adam",
    "embedding_dim": 8,
    "num_experts": 4,
    "expert_units": [32],
    "expert_dropout": 0.0,
    "head_units": [16],
    "batch_size": 256,
    "target_statistics": False,
}


class DriftingLog:
    """Draws the rows of one day after the other.

    Args:
        seed: Seed of all that is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.users, self.items = np.arange(ACTIVE), np.arange(ACTIVE)
        self.vectors = [self.rng.normal(size=(ACTIVE, 3)) for _ in range(2)]

    def rows(self, count: int) -> pd.DataFrame:
        """Returns rows of the current day."""
        user, item = self.rng.integers(ACTIVE, size=(2, count))
        of_users, of_items = self.vectors
        logits = (of_users[user] * of_items[item])[:, :2].sum(axis=1)
        logits += of_users[user, 2] + 2 * of_items[item, 2]
        clicks = self.rng.random(count) < 1 / (1 + np.exp(-logits))
        return pd.DataFrame(
            {
                "user": [f"u{number}" for number in self.users[user]],
                "item": 2**53 + self.items[item],
                "click": clicks.astype(float),
            }
        )

    def next_day(self) -> None:
        """Replaces ids by new ones, with vectors of their own."""
        for ids, vectors in zip(
            (self.users, self.items), self.vectors, strict=True
        ):
            count = int(REPLACED * ACTIVE)
            places = self.rng.choice(ACTIVE, count, replace=False)
            ids[places] = ids.max() + 1 + np.arange(count)
            vectors[places] = self.rng.normal(size=(count, 3))


def trained(
    chain: str, day: int, folder: Path, dataset: Dataset, fields: Any
) -> dict[str, Any]:
    """Trains the run of a day; returns its line."""
    run = Run(folder / chain / str(day))
    before = None if day == 1 else str(folder / chain / str(day - 1))
    data, out = str(folder / "data"), str(run.folder)
    config = TrainConfig(data, out, before, **TRAINING, **fields)
    start = WarmStart.of(config, run)
    resolved = resolve_config(config, dataset.schema)
    train_model(run, resolved, dataset, start, validated=False)
    run.remove_checkpoint()
    ranker, rows = run.load_ranker(), dataset.split("test")
    predicted = ranker.predict(rows[[*SCHEMA.features]])["click"]
    right = np.where(rows["click"] == 1, predicted, 1 - predicted)
    return {
        "chain": chain,
        "day": day,
        "ids": {
            name: vocabulary.size
            for name, vocabulary in ranker.vocabularies.items()
        },
        "loss": float(-np.log(right).mean()),
        "model_kib": run.model.stat().st_size >> 10,
        "optimizer_kib": run.optimizer.stat().st_size >> 10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--max-rows", type=int, default=1_280)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chains: dict[str, dict[str, int]] = {
        "all": {},
        "bounded": {"max_rows": options.max_rows, "evict_after": 10},
    }
    log, losses = DriftingLog(options.seed), {chain: [] for chain in chains}
    today = log.rows(options.rows)
    for day in range(1, options.days + 1):
        log.next_day()
        tomorrow = log.rows(options.rows)
        splits = {"train": today, "validation": tomorrow, "test": tomorrow}
        dataset = Dataset(SCHEMA, splits)
        shutil.rmtree(options.out / "data", ignore_errors=True)
        dataset.write(options.out / "data")
        for chain, fields in chains.items():
            line = trained(chain, day, options.out, dataset, fields)
            losses[chain].append(line["loss"])
            print(json.dumps(line), flush=True)
            if day > 1:
                shutil.rmtree(options.out / chain / str(day - 1))
        today = tomorrow
    half = options.days // 2
    differences = np.subtract(losses["bounded"], losses["all"])[half:]
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    print(
        json.dumps(
            {
                "days": len(differences),
                **{name: np.mean(x[half:]) for name, x in losses.items()},
                "difference": differences.mean(),
                "standard_error": error,
            }
        )
    )


if __name__ == "__main__":
    main()
