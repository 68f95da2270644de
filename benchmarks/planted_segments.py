r"""Writes rows of segments that have nothing in common but the features.

    python benchmarks/planted_segments.py --out data/segments
    recsys compare benchmarks/planted_segments.json --data data/segments \
        --out OUT

Row b belongs to one of 16 segments, s, and has a vector x of 6 numbers from
N(0, 1). Every segment has a hidden layer and weights of its own, drawn once:
P(task t) = sigmoid(4 · A_s[t] · tanh(2 W_s x)), with entries of W_s, of shape
(4, 6), from N(0, 1/6) and of A_s, (2, 4), from N(0, 1/4). The two tasks of a
segment share its hidden layer.

A model of these rows needs a part for each segment. One that computes the same
units for all rows has to hold 16 layers at once, and pays for all of them on
every row: experts chosen by the example should be ahead of as much computation
without a choice, given rows enough for each segment.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.splitting import split_rows

WIDTH, UNITS, TASKS = 6, 4, ("click", "buy")
NUMBERS = [f"x{number}" for number in range(WIDTH)]


def planted_segments(
    num_rows: int = 240_000, num_segments: int = 16, seed: int = 0
) -> tuple[Dataset, np.ndarray]:
    """Draws the rows of a seed.

    Args:
        num_rows: Rows of all splits: 70 % training, 15 % validation, 15 % test.
        num_segments: Segments, all as frequent.
        seed: Of the segments' layers and of the rows.

    Returns:
        The data set, and the loss of the planted probabilities for each task,
        the mean over all rows, shape `(2,)`: no model has a lower one but by
        chance.
    """
    rng = np.random.default_rng(seed)
    kernels = rng.normal(size=(num_segments, WIDTH, UNITS)) / np.sqrt(WIDTH)
    heads = rng.normal(size=(num_segments, UNITS, len(TASKS))) / np.sqrt(UNITS)
    segments = rng.integers(num_segments, size=num_rows)
    x = rng.normal(size=(num_rows, WIDTH))
    hidden = np.tanh(2 * np.einsum("bd,bdu->bu", x, kernels[segments]))
    logits = 4 * np.einsum("bu,but->bt", hidden, heads[segments])
    shares = 1 / (1 + np.exp(-logits))
    labels = rng.random(shares.shape) < shares
    rows = pd.DataFrame(x, columns=NUMBERS)
    rows["segment"] = [f"segment-{number}" for number in segments]
    rows[list(TASKS)] = labels.astype(float)
    schema = Schema(
        "planted-segments",
        {"segment": "id", **dict.fromkeys(NUMBERS, "number")},
        dict.fromkeys(TASKS, "binary"),
    )
    splits = split_rows(rows, TASKS[0], 0.15, 0.15 / 0.85, seed, schema.name)
    entropy = -shares * np.log(shares) - (1 - shares) * np.log(1 - shares)
    return Dataset(schema, splits), entropy.mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--segments", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dataset, losses = planted_segments(args.rows, args.segments, args.seed)
    dataset.write(args.out)
    pairs = zip(TASKS, losses, strict=True)
    text = ", ".join(f"{task} {loss:.4f}" for task, loss in pairs)
    print(f"Written to {args.out}. Losses of the planted probabilities: {text}")


if __name__ == "__main__":
    main()
