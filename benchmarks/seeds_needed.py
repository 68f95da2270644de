"""How many seeds a verdict on each local search of a comparison would need.

python benchmarks/seeds_needed.py benchmarks/local_search.json OUT/results.csv
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from recsys import Comparison
from recsys.reporting.statistics import paired_differences

# Table 1 of the COMET paper, loss x 100: the gate without minus with search.
PUBLISHED = {"Hash-r": 0.434, "Top-k": 0.205, "COMET": 0.017}


def seeds_needed(
    deviation: float, difference: float, level: float = 0.05, power: float = 0.8
) -> int:
    """Returns how many pairs show a difference in a one-sided test.

    Args:
        deviation: Standard deviation of the differences of single pairs.
        difference: The difference to be shown, in the same unit.
        level: Probability of finding a difference where there is none.
        power: Probability of finding this one.
    """
    quantiles = norm.ppf(1 - level) + norm.ppf(power)
    pairs = (quantiles * deviation / difference) ** 2
    return max(2, int(np.ceil(pairs)))


def needed(comparison: Comparison, results: pd.DataFrame) -> list[dict]:
    """Returns a row for each pair of models; losses are times 100.

    The number of seeds is for the difference that is published.
    """
    rows: list[dict[str, Any]] = []
    # A setting without a name comes back from the file as NaN.
    for setting, runs in results.groupby("setting", dropna=False):
        for model, other in comparison.against.items():
            differences = 100 * paired_differences(
                runs[runs["model"] == model], runs[runs["model"] == other]
            )
            if len(differences) < 2 or other not in PUBLISHED:
                continue
            deviation = float(differences.std(ddof=1))
            rows.append(
                {
                    "setting": "" if pd.isna(setting) else setting,
                    "model": model,
                    "against": other,
                    "seeds": len(differences),
                    "difference": float(differences.mean()),
                    "standard_error": deviation / len(differences) ** 0.5,
                    "standard_deviation": deviation,
                    "published_difference": -PUBLISHED[other],
                    "seeds_needed": seeds_needed(deviation, PUBLISHED[other]),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparison", type=Path)
    parser.add_argument("results", type=Path)
    arguments = parser.parse_args()
    comparison = Comparison.read(arguments.comparison)
    for row in needed(comparison, pd.read_csv(arguments.results)):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
