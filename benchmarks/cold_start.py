"""Measures whether items are found that the training did not have.

A share of the items is held out: their rows leave the training and the
validation split. A run with retrieval is trained, and gets these items by
their features alone, as by `recsys add-items`. Of the test rows with such an
item, the script prints one JSON line with the recall and ndcg among all items
before and after that, beside those of a random order of all.

    python benchmarks/cold_start.py --data data/movielens-100k --out OUT \
        --train '{"expert_units": [64], "num_experts": 4}'
"""

import argparse
import json
from pathlib import Path

import pandas as pd

import recsys
from recsys.data import Dataset
from recsys.data import load
from recsys.data.formats.table import write_table
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.runs.run import Run

SHARE = 0.1


def hold_out(dataset: Dataset, seed: int) -> tuple[Dataset, pd.DataFrame]:
    """Leaves items out of all splits but the test, which has no others.

    Returns:
        The data set, and a row for each item with the features of both.
    """
    item = str(dataset.schema.item_id)
    columns = [item, *(dataset.schema.item_features or [])]
    rows = pd.concat(dataset.splits.values(), ignore_index=True)
    items = rows[columns].drop_duplicates(item).reset_index(drop=True)
    held = items.sample(frac=SHARE, random_state=seed)
    splits = {
        name: split[split[item].isin(held[item]) == (name == "test")]
        for name, split in dataset.splits.items()
    }
    splits = {
        name: split.reset_index(drop=True) for name, split in splits.items()
    }
    return Dataset(dataset.schema, splits), held


def measured(run: Path, data: Path, k: int) -> dict[str, float]:
    """The retrieval's metrics of the test rows, all of new items."""
    config = Run(run).read_config()
    model = Run(run).load_two_tower()
    metrics = measure_retrieval(model, load(data), "test", config, k)
    return dict(metrics["retrieval"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--train", default="{}", help="fields, as JSON")
    options = parser.parse_args()
    for seed in range(options.seeds):
        out = options.out / f"seed-{seed}"
        out.mkdir(parents=True)
        given = load(options.data, streaming=False)
        assert isinstance(given, Dataset), "tables"
        dataset, held = hold_out(given, seed)
        dataset.write(out / "data")
        write_table(held, out / "items.parquet")
        fields = {"retrieval": True, **json.loads(options.train)}
        data = {"data": str(out / "data"), "seed": seed}
        recsys.train({**fields, **data, "out": str(out / "run")})
        recsys.add_items(out / "run", out / "items.parquet", out / "grown")
        before, after = (
            measured(out / name, out / "data", options.k)
            for name in ("run", "grown")
        )
        print(
            json.dumps(
                {
                    "seed": seed,
                    "rows": after["rows"],
                    "items": after["items"],
                    "held_out": len(held),
                    "chance": options.k / after["items"],
                    **{
                        f"{name}_{when}": metrics[f"{name}@{options.k}"]
                        for name in ("recall", "ndcg")
                        for when, metrics in (
                            ("before", before),
                            ("after", after),
                        )
                    },
                }
            )
        )


if __name__ == "__main__":
    main()
