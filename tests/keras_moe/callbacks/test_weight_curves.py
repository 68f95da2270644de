import numpy as np
import pytest

from keras_moe.callbacks import weight_curves

# By hand: two measurements of three experts.
WATCH = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]])
RATING = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])


def looks(axes):
    return [(line.get_color(), line.get_linestyle()) for line in axes.lines]


def test_a_panel_a_task_and_a_line_an_expert():
    figure = weight_curves({"watch": WATCH, "rating": RATING}, [0, 2])
    watch, rating = figure.axes
    assert [axes.get_title() for axes in (watch, rating)] == ["watch", "rating"]
    for axes, weights in ((watch, WATCH), (rating, RATING)):
        for line, values in zip(axes.lines, weights.T, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [0, 2])
            np.testing.assert_array_equal(line.get_ydata(), values)
    assert looks(watch) == looks(rating)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["0", "1", "2"]


def test_epochs_count_from_before_training_by_default():
    line = weight_curves({"watch": WATCH}).axes[0].lines[0]
    assert list(line.get_xdata()) == [0, 1]


def test_up_to_forty_experts_look_different():
    weights = np.full((2, 41), 1 / 41)
    figure = weight_curves({"watch": weights})
    lines = looks(figure.axes[0])
    assert len(set(lines)) == 40
    assert lines[40] == lines[0]
    assert not figure.legends


def test_panels_fill_rows_of_four():
    figure = weight_curves(dict.fromkeys("abcde", WATCH))
    assert len(figure.axes) == 5
    rows = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert rows == [0, 0, 0, 0, 1]


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match=r"`weights` must hold.*Received: {}"):
        weight_curves({})


def test_epochs_are_whole_numbers():
    figure = weight_curves({"watch": [[0.5, 0.5], [0.4, 0.6], [0.1, 0.9]]})
    ticks = figure.axes[0].get_xticks()
    assert (ticks == ticks.round()).all()
