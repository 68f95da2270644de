"""Writes a log with planted preferences into Parquet parts.

    python benchmarks/planted_log.py --out logs --rows 100000000

Each of two processes writes parts of `--part-rows` rows with the columns

    user, item    ids, of up to `--users` and `--items`; how often the one of
                  rank r is there is proportional to 1 / sqrt(r) and to 1 / r
    history       up to 5 items, with the ids of the items
    tags          up to 3 of 1,000 tags
    price, age    numbers
    click, buy    binary tasks; who buys has clicked

where a click depends on all features but the age. A part depends on its number
and these options alone, and is not written again where it is there. Beside
the log, `data` is a data folder: the first parts, of `--train-rows` rows,
linked as its training split, and two short parts as the others.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

HELD_OUT_ROWS = 100_000  # At most, of the validation and of the test split.
GROUP_ROWS = 1 << 17
LISTED = 1000  # Tags.
TYPES = 16  # Users, items and tags of one type go together.
SCHEMA = {
    "name": "big logs",
    "features": {
        "user": "id",
        "item": "id",
        "history": {"type": "sequence", "of": "item", "length": 5},
        "tags": {"type": "ids", "length": 3},
        "price": "number",
        "age": "number",
    },
    "tasks": {"click": "binary", "buy": "binary"},
}


def ids_of_ranks(ranks: Any, count: int) -> Any:
    """Ids in no order of their frequency, one for each rank from 0."""
    return (ranks.astype(np.int64) * 7_368_787 % count).astype(np.int32)


def draw_users(rng: np.random.Generator, rows: int, count: int) -> Any:
    ranks = count * rng.random(rows) ** 2
    return ids_of_ranks(ranks, count)


def draw_items(rng: np.random.Generator, rows: int, count: int) -> Any:
    ranks = np.exp(np.log(count) * rng.random(rows, np.float32)) - 1
    return ids_of_ranks(np.minimum(ranks, count - 1), count)


def lists(values: Any, lengths: Any) -> Any:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def worth(ids: Any, seed: int) -> Any:
    """A number for each id, evenly from -1 to 1, that looks random."""
    mixed = (ids.astype(np.uint64) + seed) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.float32) / 2**23 - 1


def planted(part: int, rows: int, users: int, items: int) -> Any:
    """A part of the log, which depends on the arguments alone."""
    rng = np.random.default_rng([0, part])
    user, item = draw_users(rng, rows, users), draw_items(rng, rows, items)
    lengths = rng.integers(0, 6, rows, np.int8)
    history = draw_items(rng, int(lengths.sum()), items)
    numbers = rng.integers(0, 4, rows, np.int8)
    tags = rng.integers(0, LISTED, int(numbers.sum()), np.int32)
    price = rng.exponential(20, rows).astype(np.float32)
    age = rng.integers(18, 80, rows, np.int8)
    first = np.repeat(np.arange(rows), lengths)
    alike = np.bincount(
        first, history % TYPES == item[first] % TYPES, minlength=rows
    )
    tagged = np.bincount(
        np.repeat(np.arange(rows), numbers), worth(tags, 3), minlength=rows
    )
    score = 1.5 * (worth(user, 1) + worth(item, 2)) + tagged - price / 40
    score += 2 * (user % TYPES == item % TYPES) + alike
    clicked = rng.random(rows, np.float32) < 1 / (1 + np.exp(1 - score))
    bought = rng.random(rows, np.float32) < 1 / (1 + np.exp(2 - score))
    return pa.table(
        {
            "user": user,
            "item": item,
            "history": lists(history, lengths),
            "tags": lists(tags, numbers),
            "price": price,
            "age": age,
            "click": clicked.astype(np.int8),
            "buy": (clicked & bought).astype(np.int8),
        }
    )


def write_part(part: int, file: Path, options: argparse.Namespace) -> None:
    """Writes a part unless it is there."""
    if file.is_file():
        return
    rows = options.part_rows
    if file.parent.name != "log":
        rows = min(rows, HELD_OUT_ROWS)
    unfinished = file.with_suffix(".unfinished")
    parquet.write_table(
        planted(part, rows, options.users, options.items),
        unfinished,
        row_group_size=GROUP_ROWS,
        # Ids differ too much for a dictionary of them to be short.
        use_dictionary=["age", "click", "buy"],
    )
    unfinished.rename(file)


def write_log(options: argparse.Namespace) -> None:
    """Writes all parts, and the data folder of some of them."""
    log, data = options.out / "log", options.out / "data"
    log.mkdir(parents=True, exist_ok=True)
    (data / "train").mkdir(parents=True, exist_ok=True)
    parts = options.rows // options.part_rows
    files = [log / f"{part:05}.parquet" for part in range(parts)]
    held_out = [data / "validation.parquet", data / "test.parquet"]
    write = partial(write_part, options=options)
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        written = processes.map(write, range(parts + 2), [*files, *held_out])
        list(written)  # Raises what they have raised.
    for file in files[: options.train_rows // options.part_rows]:
        linked = data / "train" / file.name
        if not linked.exists():
            os.link(file, linked)
    (data / "dataset.json").write_text(json.dumps(SCHEMA))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--train-rows", type=int, default=2 * 10**7)
    parser.add_argument("--part-rows", type=int, default=10**6)
    parser.add_argument("--users", type=int, default=10**7)
    parser.add_argument("--items", type=int, default=10**6)
    write_log(parser.parse_args())


if __name__ == "__main__":
    main()
