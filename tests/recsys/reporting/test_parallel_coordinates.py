from pathlib import Path

import pytest

from recsys.reporting.pages import themed_svg
from recsys.reporting.parallel_coordinates import OptionAxis
from recsys.reporting.parallel_coordinates import parallel_coordinates
from recsys.reporting.section import Section
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_sweep
from tests.recsys.reporting.test_best_trials import with_drawn

pytestmark = pytest.mark.once("torch")

LOSSES = [(0.5, 0.5), (0.3, 0.3), (0.4, 0.4)]


def drawn_of(tmp_path: Path, drawn: list[dict[str, object]]) -> Section | None:
    sweep = write_sweep(tmp_path / "sweep", "top-k", LOSSES)
    return parallel_coordinates(read_trained([with_drawn(sweep, drawn)]))


@pytest.mark.draws
def test_a_line_for_each_trial_through_its_values(tmp_path: Path) -> None:
    section = drawn_of(
        tmp_path,
        [
            {"k": 2, "learning_rate": 0.0001, "optimizer": "adam", "same": 1},
            {"k": 6, "learning_rate": 0.01, "optimizer": "s<g>d", "same": 1},
            {"k": 3, "learning_rate": 0.001, "optimizer": "adam", "same": 1},
        ],
    )
    assert section is not None
    (picture,) = section.pictures
    axis = picture.figure.axes[0]
    lines = [line for line in axis.lines if len(line.get_xdata()) == 4]
    heights = [line.get_ydata().tolist() for line in lines]
    # A linear axis, a logarithmic one, texts, and the validation loss.
    assert heights[0] == pytest.approx([0, 0, 0.25, 1])
    assert heights[1] == pytest.approx([1, 1, 0.75, 0])
    assert heights[2] == pytest.approx([0.25, 0.5, 0.25, 0.5])
    assert [line.get_linewidth() for line in lines] == [1.2, 4, 1.2]
    assert len({tuple(line.get_color()) for line in lines}) == 3
    assert [label.get_text() for label in axis.get_xticklabels()] == [
        *("k", "learning_rate", "optimizer", "validation loss x 100")
    ]
    assert (
        "of 3 trials, 30.00 (median 40.00), is that of trial 1: k 6, "
        "learning_rate 0.01, optimizer s<g>d."
    ) in picture.caption
    assert (
        "<title>trial 1: loss 30.00, k 6, learning_rate 0.01, optimizer "
        "s&lt;g&gt;d</title>"
    ) in themed_svg(picture.figure, "x")


def test_of_many_options_twelve_are_drawn_and_the_others_named(
    tmp_path: Path,
) -> None:
    section = drawn_of(
        tmp_path,
        [{f"option_{i}": i * n for i in range(1, 15)} for n in range(3)],
    )
    assert section is not None
    (picture,) = section.pictures
    assert len(picture.figure.axes[0].get_xticklabels()) == 13
    assert "12 of 14 options are drawn" in picture.caption
    assert "without option_13, option_14." in picture.caption


def test_what_was_the_same_in_all_trials_is_no_axis(tmp_path: Path) -> None:
    assert drawn_of(tmp_path, [{"k": 2}] * 3) is None


def test_a_value_that_is_missing_lies_below_the_others() -> None:
    axis = OptionAxis.of([1, None, 3])
    assert [axis.height(value) for value in (1, 3)] == [0, 1]
    assert axis.height(None) < 0
    assert [label for _, label in axis.ticks()] == ["none", "1", "2", "3"]
    assert OptionAxis.of([True, False]).categories == ("False", "True")
    assert OptionAxis.of([2**60, "shop 1"]).height("shop 1") == 0.75
