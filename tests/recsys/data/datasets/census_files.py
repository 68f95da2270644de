"""Small files in the form of the published Census-Income."""

from pathlib import Path

import numpy as np

from recsys.data.datasets.census_income import COLUMNS
from recsys.data.datasets.census_income import NUMBERS
from recsys.data.datasets.census_income import WEIGHT


def census_line(rng: np.random.Generator) -> str:
    fields = {
        name: str(rng.integers(0, 60))
        if name in NUMBERS
        else f"{'?ABC'[rng.integers(4)]}"
        for name in COLUMNS
    }
    rich = int(fields["age"]) + rng.normal() > 30
    married = ("Never married", "Divorced")[rng.integers(2)]
    fields |= {
        "education": "Masters degree(MA MS MEng MEd MSW MBA)",
        "marital stat": married,
        WEIGHT: f"{rng.uniform(100, 2000):.2f}",
        "income": "50000+." if rich else "- 50000.",
    }
    return ", ".join(fields.values())


def write_census(folder: Path, train: int, test: int) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("data", train), ("test", test)):
        lines = [census_line(rng) + "\n" for _ in range(count)]
        (folder / f"census-income.{part}").write_text("".join(lines))
