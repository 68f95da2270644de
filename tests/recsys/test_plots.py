from pathlib import Path

import numpy as np
import pandas as pd

from recsys import plots


def history(**columns: list[float]) -> pd.DataFrame:
    losses = {"loss": [9.0, 2.0, 1.0], "val_loss": [2.0, 1.5, 1.6]}
    return pd.DataFrame({"epoch": [1, 2, 3], **losses, **columns})


def test_loss_curves_have_a_panel_for_each_task() -> None:
    table = history(a_loss=[3, 2, 1], val_a_loss=[3, 2, 1], b_loss=[1, 1, 1])
    figure = plots.loss_curves(table, ["a", "b"])
    assert [axis.get_title() for axis in figure.axes] == [
        "Weighted total",
        "a",
        "b",
    ]
    assert [len(axis.lines) for axis in figure.axes] == [3, 3, 2]


def test_single_task_has_one_panel_with_the_best_epoch() -> None:
    (axis,) = plots.loss_curves(history(), ["a"]).axes
    training, validation, best = axis.lines
    assert training.get_ydata().tolist() == [9, 2, 1]
    assert validation.get_ydata().tolist() == [2, 1.5, 1.6]
    assert best.get_xdata()[0] == 2


def test_first_training_loss_does_not_flatten_the_rest() -> None:
    (axis,) = plots.loss_curves(history(), ["a"]).axes
    assert 2 < axis.get_ylim()[1] < 3


def test_calibration_by_hand() -> None:
    labels = np.array([0, 1, 1, 1, np.nan])
    probabilities = np.array([0.1, 0.3, 0.9, 1.0, 0.7])
    figure = plots.calibration("a", labels, probabilities, num_bins=2)
    reliability = figure.axes[0].lines[1]
    assert reliability.get_xdata().tolist() == [0.2, 0.95]
    # Half of the rows are off by 0.3, the others by 0.05.
    assert reliability.get_label() == "model, ECE 0.1750"
    assert reliability.get_ydata().tolist() == [0.5, 1.0]
    assert [bar.get_height() for bar in figure.axes[1].patches] == [2, 2]


def test_figure_is_saved(tmp_path: Path) -> None:
    plots.save(plots.loss_curves(history(), ["a"]), tmp_path / "p" / "a.png")
    assert (tmp_path / "p" / "a.png").read_bytes().startswith(b"\x89PNG")
