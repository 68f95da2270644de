"""Losses of the first training steps, kept: run it only to change them.

KERAS_BACKEND=tensorflow python -m tests.golden.losses
"""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.models.build import build_ranker
from recsys.training.batches import create_batches
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config
from tests.recsys.conftest import tiny_dataset

LOSSES = Path(__file__).parent / "losses.json"

# Every way through a training step: with the gradients of the sum of all
# losses or of each, by whole variables or by the rows of tables.
CASES: dict[str, dict[str, Any]] = {
    f"{weighting}, {table}": {"weighting": weighting, "table_optimizer": table}
    for weighting, table in itertools.product(
        ("fixed", "gradnorm"), ("adam", "lazy-adam")
    )
}


def losses_of(case: str, dataset: Dataset) -> list[float]:
    """The losses of the steps of an epoch, from the same first weights."""
    config = TrainConfig(
        "tiny",
        "run",
        gate="top-k",
        num_experts=4,
        embedding_dim=4,
        expert_units=[8],
        head_units=[4],
        batch_size=16,  # Not all ids are in each.
        learning_rate=0.01,
        unknown_rate=0.0,
        expert_dropout=0.0,
        **CASES[case],
    )
    resolved = resolve_config(config, dataset.schema)
    model = build_ranker(resolved, dataset)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    compile_model(model, resolved)
    batches = create_batches(
        dataset.split("train"), model, resolved, dataset.schema.row_weights
    )
    batches.shuffle(0)
    return [
        float(model.train_on_batch(*batch, return_dict=True)["loss"])
        for batch in batches
    ]


def main() -> None:
    losses = {case: losses_of(case, tiny_dataset()) for case in CASES}
    LOSSES.write_text(json.dumps(losses, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
