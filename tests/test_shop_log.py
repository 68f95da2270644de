"""The generated log of `examples/a_week.py`."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import recsys


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    return importlib.import_module("shop_log")


def test_a_day(module: ModuleType, tmp_path: Path) -> None:
    shop = module.Shop(requests=4000, judged=4000, users=200, items=100)
    days = {}
    for name, day, broken in (
        ("one", 1, False),
        ("same", 1, False),
        ("next", 2, False),
        ("cents", 2, True),
    ):
        shop.write_day(tmp_path / name, day, broken)
        days[name] = recsys.load(str(tmp_path / name))
    one = days["one"]
    train, test = one.split("train"), one.split("test")
    assert [len(one.split(name)) for name in one.splits] == [17500, 2500, 4000]
    pd.testing.assert_frame_equal(train, days["same"].split("train"))

    # What is asked for: a drift, a bias and a broken day.
    assert train["item"].min() >= 2**60
    for column, number in (("user", 200), ("item", 100)):
        ids = {*days["next"].split("train")[column]} - {*train[column]}
        assert 0 < len(ids) <= number // 20
    rates = train.groupby("place")["click"].mean()
    assert rates.is_monotonic_decreasing
    assert train.groupby("place")["price"].mean().is_monotonic_increasing
    assert {*test["place"]} == {1}
    assert test["price"].mean() > 2 * train["price"][train["place"] == 1].mean()
    tastes = [shop._tastes(day).ravel() for day in (1, 2, 8)]
    correlations = np.corrcoef(tastes)[0, 1:]
    assert correlations[0] > 0.5 > correlations[1]

    cents, right = (days[name].split("train") for name in ("cents", "next"))
    np.testing.assert_allclose(cents["price"], 100 * right["price"])
    pd.testing.assert_frame_equal(
        cents.drop(columns="price"), right.drop(columns="price")
    )
    pd.testing.assert_frame_equal(
        days["cents"].split("test"), days["next"].split("test")
    )
