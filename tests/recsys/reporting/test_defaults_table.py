from dataclasses import replace

import pandas as pd
import pytest

from recsys.reporting.shelf import BENCHMARKS
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.defaults_table import default_rows
from recsys.reporting.shelf.defaults_table import defaults_table

pytestmark = pytest.mark.once("torch")

TOWERS = {"retrieval": True, "retrieval_label": "all"}
SMALL = Benchmark(
    title="Small",
    protocol="The last item.",
    about="Few users.",
    data_set="sequences",
    files={},
    k=3,
    settings=(
        Setting("popular", "baseline", {"model": "popular"}),
        Setting("ease", "baseline", {"model": "ease"}),
        Setting("towers, refit", "train", {**TOWERS, "refit": True}),
        Setting("towers", "train", TOWERS),
    ),
    published=(),
)
DRAWN = replace(SMALL, draws=3)


def cells(
    benchmark: Benchmark, values: dict[str, list[float]]
) -> dict[str, str]:
    """The only line of the table, by column; values are those of seeds."""
    rows = [
        {"row": row, "seed": seed, "recall@3": 0.9, "ndcg@3": value}
        for row, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    ]
    header, lines = defaults_table(
        {"small": benchmark}, {"small": pd.DataFrame(rows)}
    )
    (line,) = lines
    return dict(zip(header, line, strict=True))


def test_share_of_the_way_from_popular_to_the_best() -> None:
    found = cells(
        SMALL, {"popular": [0.1], "ease": [0.6], "towers": [0.4, 0.6]}
    )
    assert found == {
        "benchmark": "small",
        "metric": "ndcg@3",
        "popular": "0.1000",
        "defaults": "0.5000",
        "best here": "0.6000",
        "its row": "ease",
        "of the way": "80 %",  # (0.5 - 0.1) / (0.6 - 0.1)
        "seeds": "2",
    }


def test_draws_of_the_splits_are_those_of_the_defaults() -> None:
    values = {
        "popular": [0.1, 0.3, 0.9],
        "ease": [0.7, 0.7, 0.1],
        # The best, on a draw that tells nothing about the other one.
        "towers, refit": [0.9],
        "towers": [0.4, 0.6],
    }
    found = cells(DRAWN, values)
    assert (found["popular"], found["best here"]) == ("0.2000", "0.7000")
    assert found["its row"] == "ease"
    assert found["of the way"] == "60 %"  # (0.5 - 0.2) / (0.7 - 0.2)
    # Where nothing is drawn, seeds of two rows have nothing in common.
    assert cells(SMALL, values)["its row"] == "towers, refit"


@pytest.mark.parametrize("benchmark", [SMALL, DRAWN], ids=["given", "drawn"])
def test_defaults_that_are_not_measured_have_no_share(
    benchmark: Benchmark,
) -> None:
    found = cells(benchmark, {"popular": [0.1, 0.2], "ease": [0.6]})
    assert found["defaults"] == "not measured"
    assert (found["best here"], found["its row"]) == ("0.6000", "ease")
    assert found["of the way"] == found["seeds"] == ""


def test_the_defaults_as_the_best_row_come_all_the_way() -> None:
    found = cells(SMALL, {"popular": [0.1], "towers": [0.5]})
    assert (found["its row"], found["of the way"]) == ("towers", "100 %")


def test_what_is_not_measured_or_of_tasks_has_no_line() -> None:
    tasks = replace(SMALL, measured="tasks", metrics=("loss x 100",))
    results = {"tasks": pd.DataFrame({"row": ["popular"], "seed": [0]})}
    assert defaults_table({"tasks": tasks, "new": SMALL}, results)[1] == []


def test_the_rows_of_the_defaults() -> None:
    found = {
        name: [setting.name for setting in default_rows(benchmark)]
        for name, benchmark in BENCHMARKS.items()
    }
    films = ["two towers and ranker"]
    reviews = ["transformer, defaults", "transformer with attributes, defaults"]
    assert found == {
        "ml-1m-loo": ["transformer, defaults"],
        **dict.fromkeys(("amazon-beauty", "amazon-sports", "yelp"), reviews),
        "gowalla": ["two towers"],
        "ml-1m-80-20": films,
        "ml-100k-75-25": films,
        "ml-100k-80-10-10": films,
        "ml-100k-80-20": films,
        "census": [],
        "movielens-1m": [],
    }


def test_the_best_row_has_seen_no_more_than_the_defaults() -> None:
    of_brands = Setting("towers, brands", "train", TOWERS, files=("brands",))
    benchmark = replace(SMALL, settings=(*SMALL.settings, of_brands))
    rows = {"popular": 0.1, "ease": 0.5, "towers": 0.3, "towers, brands": 0.9}
    results = pd.DataFrame(
        [
            {"row": row, "seed": 0, "recall@3": 0.9, "ndcg@3": value}
            for row, value in rows.items()
        ]
    )
    _, lines = defaults_table({"small": benchmark}, {"small": results})
    found = [(line[0], line[5], line[6]) for line in lines]
    assert found == [
        ("small", "ease", "50 %"),
        ("small, with brands", "towers, brands", "100 %"),
    ]
    # A line of files only where the defaults were measured with them.
    results = results[results["row"] != "towers, brands"]
    _, lines = defaults_table({"small": benchmark}, {"small": results})
    assert [line[0] for line in lines] == ["small"]
