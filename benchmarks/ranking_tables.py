"""Writes the data folders of `defaults.json`: `python ranking_tables.py OUT`.

* `census`: the test file of Census-Income, split at random (70, 15, 15 %).
* `likes`, `likes-by-time`: the ratings of MovieLens-100K with all features,
  and whether they are 4 or more, as two tasks.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.progress import Progress

import recsys
from recsys.data.datasets.census_income import NUMBERS
from recsys.data.datasets.census_income import read_examples

_NO_FEATURES = ["education", "marital stat", "instance weight"]
_LABELS = ["income", "never_married"]


def census(file: Path, seed: int = 0) -> recsys.Dataset:
    """Splits the 99,762 people of one file of Census-Income.

    Args:
        file: `census-income.test`, or the same with `.gz` behind it.
        seed: Seed of the split.
    """
    with Progress(disable=True) as progress:
        people = read_examples(file, progress).drop(columns=_NO_FEATURES)
    people = people.astype(dict.fromkeys(NUMBERS, "float64"))
    features = {
        name: "number" if name in NUMBERS else "id"
        for name in people.columns.drop(_LABELS)
    }
    schema = recsys.Schema("census", features, dict.fromkeys(_LABELS, "binary"))
    order = np.random.default_rng(seed).permutation(len(people))
    bounds = [round(0.7 * len(people)), round(0.85 * len(people))]
    splits = zip(
        ("train", "validation", "test"), np.split(order, bounds), strict=True
    )
    return recsys.Dataset(
        schema,
        {
            name: people.iloc[rows].reset_index(drop=True)
            for name, rows in splits
        },
    )


def likes(raw_dir: Path, split: str, folder: Path) -> recsys.Dataset:
    """Returns the ratings of MovieLens-100K, and which of them are likes.

    Args:
        raw_dir: Folder of the download.
        split: `"random"` or `"time"`.
        folder: Where the data folder with all its rows goes.
    """
    recsys.prepare(
        "movielens-100k", raw_dir, folder, features="all", split=split
    )
    everything = recsys.load(folder)
    tasks = {"like": "binary", "rating": "regression"}
    schema = replace(everything.schema, name="likes", tasks=tasks)
    tables = {}
    for name in ("train", "validation", "test"):
        rated = everything.split(name).dropna(subset="rating")
        rated = rated.drop(columns="watch").reset_index(drop=True)
        tables[name] = rated.assign(like=(rated["rating"] >= 4).astype(float))
    return recsys.Dataset(schema, tables)


def _data_sets(
    census_file: Path | None, ml_100k: Path | None, out: Path
) -> Iterator[tuple[str, recsys.Dataset]]:
    if census_file is not None:
        yield "census", census(census_file)
    if ml_100k is not None:
        yield "likes", likes(ml_100k, "random", out / "all")
        yield "likes-by-time", likes(ml_100k, "time", out / "all-by-time")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--census", type=Path, help="census-income.test(.gz)")
    parser.add_argument("--ml-100k", type=Path, help="folder of the download")
    arguments = parser.parse_args()
    for name, dataset in _data_sets(
        arguments.census, arguments.ml_100k, arguments.out
    ):
        dataset.write(arguments.out / name)
        print(f"Written to {arguments.out / name}")
