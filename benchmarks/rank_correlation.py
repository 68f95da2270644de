"""Compares the order of models with the order that papers have published.

    python benchmarks/rank_correlation.py OUT/results.csv

`OUT` is the folder of `recsys compare benchmarks/gates.json`. Prints one JSON
line for every setting and table in `published_losses.json`: Kendall's tau-b of
the mean test losses and the published ones, over the models in both, and the
probability of a tau as far from 0 if the two orders had nothing to do with
each other.
"""

import argparse
import json
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import kendalltau

PUBLISHED = Path(__file__).with_name("published_losses.json")


def rank_correlations(
    results: pd.DataFrame, published: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yields what agrees between measured and published orders.

    Args:
        results: A row per run: "setting", "model", "seed" and "loss".
        published: Losses by setting, by table, and by model.

    Yields:
        For each setting and table with two models or more that were measured:
        "setting", "table", "models" (how many), "seeds" (the fewest of a
        model), "tau" and "p".
    """
    for (setting, table), losses in _tables(published):
        runs = results[results["setting"] == setting]
        runs = runs[runs["model"].isin(losses)].groupby("model")["loss"]
        if len(runs) < 2:
            continue
        means = runs.mean()
        tau, p = kendalltau(means, [losses[model] for model in means.index])
        yield {
            "setting": setting,
            "table": table,
            "models": len(means),
            "seeds": int(runs.count().min()),
            "tau": round(float(tau), 3),
            "p": float(f"{p:.2g}"),
        }


def _tables(
    published: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str], Mapping[str, float]]]:
    for setting, tables in published.items():
        for table, losses in tables.items():
            yield (setting, table), losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    for line in rank_correlations(pd.read_csv(options.results), published):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
