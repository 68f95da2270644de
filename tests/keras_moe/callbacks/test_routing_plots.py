import io

import numpy as np
import pytest

from keras_moe.callbacks import experts_per_example_curve
from keras_moe.callbacks import load_heat_map

pytestmark = pytest.mark.once("torch")

LOADS = {"watch": [1.0, 0.004, 0.0], "rating": [0.25, 0.25, 0.5]}


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_heat_map_has_a_row_a_task_and_a_column_an_expert():
    figure = load_heat_map(LOADS, title="Test split")
    axes, bar = figure.axes
    np.testing.assert_allclose(
        axes.images[0].get_array(), [[100, 0.4, 0], [25, 25, 50]]
    )
    assert axes.get_title() == "Test split"
    assert axes.get_xlabel() == "Expert"
    assert axes.get_ylabel() == "Task"
    assert tick_labels(axes.xaxis) == ["0", "1", "2"]
    assert tick_labels(axes.yaxis) == ["watch", "rating"]
    assert "% of examples" in bar.get_ylabel()


def test_heat_map_writes_the_loads_in_percent():
    axes = load_heat_map(LOADS).axes[0]
    numbers = [text.get_text() for text in axes.texts]
    assert numbers == ["100", "<1", "0", "25", "25", "50"]


def test_heat_map_shows_an_expert_without_examples_in_grey():
    image = load_heat_map(LOADS).axes[0].images[0]
    colours = image.to_rgba(image.get_array())[0]
    red, green, blue, _ = colours[2]
    assert red == green == blue < 1
    assert colours[1][0] != colours[1][2]


@pytest.mark.parametrize("largest", [0.03, 1.0, 1.5])
def test_colours_of_all_heat_maps_go_to_100_percent(largest):
    axes, bar = load_heat_map({"watch": [largest, 0.01]}).axes
    assert axes.images[0].get_clim()[1] == 100
    assert bar.get_ylim()[1] == 100


def test_heat_map_of_many_experts_is_not_cluttered():
    loads = {f"task_{i}": np.full(64, 1 / 32) for i in range(8)}
    axes = load_heat_map(loads).axes[0]
    assert not axes.texts
    assert len(axes.get_xticks()) <= 32


def test_heat_map_leaves_experts_blank_that_a_task_does_not_have():
    image = load_heat_map({"a": [0.5, 0.5, 0], "b": [1, 0]}).axes[0].images[0]
    assert np.ma.getmaskarray(image.get_array()).tolist() == [
        [False, False, False],
        [False, False, True],
    ]


def test_heat_map_of_no_selection_at_all_can_be_drawn():
    load_heat_map({"watch": [0.0, 0.0]}).savefig(io.BytesIO())


def test_curve_has_a_line_a_task():
    figure = experts_per_example_curve(
        {"watch": [4.0, 3.0], "rating": [2.0, 1.0]}, epochs=[1, 3], title="T"
    )
    axes = figure.axes[0]
    assert axes.get_title() == "T"
    assert axes.get_xlabel() == "Epochs of training"
    assert axes.get_ylabel() == "Experts per example (mean)"
    assert axes.get_ylim()[0] == 0
    assert [line.get_label() for line in axes.lines] == ["watch", "rating"]
    assert [line.get_xydata().tolist() for line in axes.lines] == [
        [[1, 4], [3, 3]],
        [[1, 2], [3, 1]],
    ]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["watch", "rating"]


def test_curve_starts_before_training_by_default():
    axes = experts_per_example_curve({"watch": [4.0, 3.0, 2.0]}).axes[0]
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (load_heat_map, "loads"),
        (experts_per_example_curve, "experts_per_example"),
    ],
)
def test_nothing_to_draw_is_refused(draw, name):
    with pytest.raises(ValueError, match=f"`{name}` must hold.*Received: {{}}"):
        draw({})


@pytest.mark.parametrize("draw", [load_heat_map, experts_per_example_curve])
def test_a_missing_matplotlib_is_said(draw, monkeypatch):
    monkeypatch.setattr(
        "keras_moe.callbacks.routing_plots.find_spec", lambda name: None
    )
    with pytest.raises(ImportError, match="pip install matplotlib"):
        draw({"watch": [1.0]})
