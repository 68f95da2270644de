from pathlib import Path

import pytest

from recsys.reporting.k_sweep import k_sweep
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run

pytestmark = pytest.mark.once("torch")


def test_the_loss_of_each_k_with_its_error(tmp_path: Path) -> None:
    for k, loss, seed in ((2, 0.5, 0), (4, 0.40, 0), (4, 0.42, 1)):
        folder = tmp_path / f"k={k}" / f"seed-{seed}"
        write_run(folder, "top-k", loss, seed, k=k)
    write_run(tmp_path / "moesart", "moesart", 0.41, k=2)
    section = k_sweep(read_trained([tmp_path]))
    assert section is not None
    (picture,) = section.pictures
    containers = picture.figure.axes[0].containers
    assert [bars.get_label() for bars in containers] == ["top-k", "moesart"]
    line, _, (bars,) = containers[0]
    assert line.get_xdata().tolist() == [2, 4]
    assert line.get_ydata().tolist() == pytest.approx([50, 41])
    heights = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    assert heights == pytest.approx([0, 2])


def test_one_k_is_no_sweep(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "top-k", 0.4)
    assert k_sweep(read_trained([tmp_path])) is None
