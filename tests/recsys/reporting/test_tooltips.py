import re

import pytest
from matplotlib.figure import Figure

from recsys.reporting.pages import themed_svg
from recsys.reporting.tooltips import MOST_MARKS
from recsys.reporting.tooltips import add_tooltips

pytestmark = [pytest.mark.draws, pytest.mark.once("torch")]


def titles(figure: Figure) -> list[str]:
    add_tooltips(figure)
    return re.findall("<title>(.*?)</title>", themed_svg(figure, "x"))


def test_points_of_named_curves_have_titles() -> None:
    figure = Figure()
    axis = figure.subplots()
    axis.plot([1, 2], [0.5, 0.25], "o-", label="a & b")
    axis.plot([1, 2], [0.1, 0.2], "o-")  # Without a name.
    axis.errorbar([2], [3.0], [0.5], fmt="o", capsize=2, label="top-k")
    axis.axvline(1, label="best epoch")
    axis.set(xlabel="k", ylabel="Loss")
    assert titles(figure) == [
        *("a &amp; b: k 1, Loss 0.5", "a &amp; b: k 2, Loss 0.25"),
        "top-k: k 2, Loss 3",
    ]


@pytest.mark.parametrize("name", ["bar", "barh"])
def test_bars_have_titles_with_the_text_of_their_tick(name: str) -> None:
    figure = Figure()
    axis = figure.subplots()
    getattr(axis, name)([0, 1], [3.0, 4.5])
    set_ticks = axis.set_xticks if name == "bar" else axis.set_yticks
    set_ticks([0, 1], ["movie 7", "9007199254740993"])
    assert titles(figure) == ["movie 7: 3", "9007199254740993: 4.5"]


def test_points_in_time_say_their_date() -> None:
    import pandas as pd

    figure = Figure()
    days = pd.to_datetime(["2026-01-01", "2026-01-02"])
    figure.subplots().plot(days, [1.0, 2.0], "o-", label="train")
    first, second = titles(figure)
    assert first.startswith("train: 2026-01-01")
    assert second.startswith("train: 2026-01-02")


def test_too_many_marks_have_none() -> None:
    figure = Figure()
    numbers = range(MOST_MARKS + 1)
    figure.subplots().plot(numbers, numbers, "o-", label="a")
    assert titles(figure) == []
