from pathlib import Path

import pandas as pd
import pytest

from recsys.reporting.routing import routing
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run

pytestmark = pytest.mark.once("torch")


def test_the_weights_of_the_best_run_are_drawn(tmp_path: Path) -> None:
    rows = [
        (epoch, task, expert, weight)
        for epoch, weights in ((0, (0.5, 0.5)), (1, (0.1, 0.9)))
        for task in ("watch", "rating")
        for expert, weight in enumerate(weights)
    ]
    table = pd.DataFrame(rows, columns=["epoch", "task", "expert", "weight"])
    best = write_run(tmp_path / "comet" / "seed-0", "comet", 0.3)
    table.to_csv(best / "weights.csv", index=False)
    worse = write_run(tmp_path / "comet" / "seed-1", "comet", 0.4, seed=1)
    table.assign(weight=0.25).to_csv(worse / "weights.csv", index=False)
    section = routing(read_trained([tmp_path]))
    assert section is not None
    curves, heat_map = section.pictures
    assert curves.caption.startswith("comet: synthetic, 8 experts")
    watch, rating = curves.figure.axes[:2]
    assert (watch.get_title(), rating.get_title()) == ("watch", "rating")
    lines = [line.get_ydata().tolist() for line in watch.lines]
    assert lines == [pytest.approx([0.5, 0.1]), pytest.approx([0.5, 0.9])]
    plane, bar = heat_map.figure.axes
    assert plane.get_title() == "Mean weight of each expert"
    assert bar.get_ylabel() == "Mean weight (%,\ngrey: none)"
    (image,) = heat_map.figure.axes[0].images
    assert image.get_array().tolist() == [pytest.approx([10, 90])] * 2


def test_runs_without_a_gate_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "comet", 0.3)
    assert routing(read_trained([tmp_path])) is None
