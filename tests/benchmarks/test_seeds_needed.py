import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from recsys import Comparison

pytestmark = pytest.mark.once("torch")


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("seeds_needed")


def test_number_of_seeds_by_hand(script: ModuleType) -> None:
    # ((1.6449 + 0.8416) * 0.06 / 0.017)^2 = 77.02
    assert script.seeds_needed(deviation=0.06, difference=0.017) == 78
    assert script.seeds_needed(deviation=0.0, difference=0.017) == 2


def test_that_many_seeds_show_the_difference_as_often_as_they_should(
    script: ModuleType,
) -> None:
    seeds = script.seeds_needed(deviation=1.0, difference=0.4)
    drawn = np.random.default_rng(0).normal(-0.4, 1.0, size=(4000, seeds))
    found = ttest_1samp(drawn, 0, axis=1, alternative="less").pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_rows_are_of_the_pairs_of_the_comparison(script: ModuleType) -> None:
    comparison = Comparison(
        {name: {} for name in ("COMET", "COMET+", "COMET+ (paper)", "other")},
        against={
            "COMET+": "COMET",
            "COMET+ (paper)": "COMET",
            "COMET": "other",  # Of which nothing is published.
        },
    )
    losses = {
        "COMET": [0.52, 0.54, 0.53, 0.51],
        "COMET+": [0.51, 0.54, 0.51, 0.51],
        "COMET+ (paper)": [0.52],
        "other": [0.5, 0.6, 0.7, 0.8],
    }
    results = pd.concat(
        pd.DataFrame(
            {
                "setting": np.nan,  # As an empty name comes back from a file.
                "model": model,
                "seed": range(len(values)),
                "loss": values,
            }
        )
        for model, values in losses.items()
    )
    (row,) = script.needed(comparison, results)
    assert (row["model"], row["against"], row["seeds"]) == (
        "COMET+",
        "COMET",
        4,
    )
    # Differences: -1, 0, -2, 0.
    assert row["difference"] == pytest.approx(-0.75)
    assert row["standard_deviation"] == pytest.approx(0.957427)
    assert row["standard_error"] == pytest.approx(0.478714)
    assert row["published_difference"] == -0.017
    assert row["seeds_needed"] == script.seeds_needed(0.957427, 0.017)


def test_it_reads_what_a_comparison_leaves(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = pd.DataFrame(
        {
            "setting": "",
            "model": ["COMET", "COMET", "COMET+", "COMET+"],
            "seed": [0, 1, 0, 1],
            "loss": [0.52, 0.54, 0.51, 0.52],
        }
    )
    results.to_csv(tmp_path / "results.csv", index=False)
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    files = [benchmarks / "local_search.json", tmp_path / "results.csv"]
    monkeypatch.setattr("sys.argv", ["seeds_needed", *map(str, files)])
    script.main()
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["model"], row["seeds"]) == ("COMET+", 2)
    assert row["difference"] == pytest.approx(-1.5)
