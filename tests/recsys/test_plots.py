from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recsys import plots


def history(**columns: list[float]) -> pd.DataFrame:
    losses = {"total_loss": [9.0, 2.0, 1.0], "val_loss": [2.0, 1.5, 1.6]}
    return pd.DataFrame({"epoch": [1, 2, 3], **losses, **columns})


def test_loss_curves_have_a_panel_for_each_task() -> None:
    table = history(a_loss=[3, 2, 1], val_a_loss=[3, 2, 1], b_loss=[1, 1, 1])
    figure = plots.loss_curves(table, ["a", "b"])
    assert [axis.get_title() for axis in figure.axes] == [
        "Weighted total",
        "a",
        "b",
    ]
    # The first point of the total is cut off, and marked.
    assert [len(axis.lines) for axis in figure.axes] == [4, 3, 2]


def test_single_task_has_one_panel_with_the_best_epoch() -> None:
    (axis,) = plots.loss_curves(history(), ["a"]).axes
    training, _, validation, best = axis.lines
    assert training.get_ydata().tolist() == [9, 2, 1]
    assert validation.get_ydata().tolist() == [2, 1.5, 1.6]
    assert best.get_xdata()[0] == 2


def test_first_training_loss_does_not_flatten_the_rest() -> None:
    (axis,) = plots.loss_curves(history(), ["a"]).axes
    assert 2 < axis.get_ylim()[1] < 3
    assert 0.9 < axis.get_ylim()[0] < 1


def test_what_is_cut_off_is_marked_with_its_value() -> None:
    figure = plots.loss_curves(history(), ["a"])
    (axis,) = figure.axes
    mark = axis.lines[1]
    assert mark.get_marker() == "^"
    assert mark.get_xydata().tolist() == [[1, axis.get_ylim()[1]]]
    assert [text.get_text() for text in axis.texts] == ["9"]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "training, beyond the axis" in shown


def test_nothing_is_marked_where_all_is_in_sight() -> None:
    table = history().assign(total_loss=[2.1, 2.0, 2.2])
    figure = plots.loss_curves(table, ["a"])
    assert not figure.axes[0].texts
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["training", "validation", "best epoch"]


def test_a_loss_with_regularizers_is_not_drawn_beside_the_validations() -> None:
    table = history(loss=[9.5, 2.5, 1.5]).drop(columns="total_loss")
    validation, _ = plots.loss_curves(table, ["a"]).axes[0].lines
    assert validation.get_ydata().tolist() == [2, 1.5, 1.6]


def test_the_loss_of_the_retrieval_has_a_panel_of_its_own() -> None:
    figure = plots.loss_curves(history(retrieval_loss=[7.0, 6.9, 6.8]), ["a"])
    _, axis = figure.axes
    assert axis.get_title() == "Retrieval, training"
    assert axis.lines[0].get_ydata().tolist() == [7.0, 6.9, 6.8]


def test_epochs_of_an_earlier_version_are_left_out_of_the_curve() -> None:
    table = history().assign(total_loss=[np.nan, np.nan, 1.0])
    (axis,) = plots.loss_curves(table, ["a"]).axes
    assert not axis.texts
    assert np.isfinite(axis.get_ylim()).all()


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


def growths(names: Sequence[str]) -> dict[str, dict[str, float]]:
    return {
        name: {"mean": 0.0123 / place, "deviation": 0.001}
        for place, name in enumerate(names, start=1)
    }


def importance(
    names: Sequence[str] = ("user", "item"), **units: str
) -> dict[str, Any]:
    tasks = {task: growths(names) for task in units}
    return {"total": growths(names), "tasks": tasks, "units": units}


def test_importance_has_the_unit_of_each_loss() -> None:
    figure = plots.importance(importance(watch="nats", stars="squared label"))
    assert [axis.get_xlabel() for axis in figure.axes] == [
        "Growth of the loss (weighted sum)",
        "Growth of the loss (nats)",
        "Growth of the loss (squared label)",
    ]
    (axis,) = plots.importance(importance(stars="squared label")).axes
    assert axis.get_xlabel() == "Growth of the loss (squared label)"


def test_labels_of_importance_do_not_collide() -> None:
    figure = plots.importance(importance(watch="nats", stars="nats"))
    figure.draw_without_rendering()
    for axis in figure.axes:
        boxes = [
            label.get_window_extent()
            for label in axis.get_xticklabels()
            if label.get_text()
        ]
        assert len(boxes) > 2
        for left, right in pairwise(boxes):
            assert left.x1 < right.x0


def test_names_of_features_are_no_mathematics_and_leave_room() -> None:
    names = ["$\\frac$", "x" * 300, f"{'x' * 299}y"]
    figure = plots.importance(importance(names, watch="nats"))
    figure.draw_without_rendering()
    (axis,) = figure.axes
    first, *long = [label.get_text() for label in axis.get_yticklabels()][::-1]
    assert first == "$\\frac$"
    assert max(map(len, long)) < 40
    assert [bar.get_width() for bar in axis.patches][::-1] == [
        growth["mean"] for growth in growths(names).values()
    ]


def test_of_many_features_the_most_important_are_drawn() -> None:
    names = [f"feature_{number}" for number in range(2000)]
    figure = plots.importance(importance(names, watch="nats"))
    (axis,) = figure.axes
    assert axis.get_yticklabels()[-1].get_text() == "feature_0"
    assert len(axis.patches) == 50
    assert figure.get_suptitle() == "The 50 most important of 2,000 features"


def test_figure_is_saved(tmp_path: Path) -> None:
    plots.save(plots.loss_curves(history(), ["a"]), tmp_path / "p" / "a.png")
    assert (tmp_path / "p" / "a.png").read_bytes().startswith(b"\x89PNG")
