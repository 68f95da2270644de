import re
from pathlib import Path

import pytest

from recsys import cli
from recsys.api.report import SECTIONS
from recsys.api.report import report
from recsys.errors import RunError
from recsys.terminal.progress import shown_progress
from tests.recsys.reporting.run_folders import write_sweep

pytestmark = pytest.mark.once("torch")


@pytest.mark.draws
def test_the_page_holds_its_figures_and_the_markdown_says_the_same(
    two_sweeps: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "report"
    titles = report(two_sweeps, out)
    assert titles == ["Results", "Best trials", "Cost of tuning"]
    page = (out / "index.html").read_text()
    markdown = (out / "report.md").read_text()
    assert (out / "figures" / "tuning_cost_0.png").read_bytes()
    (figure,) = re.findall("<svg.*?</svg>", page, re.DOTALL)
    assert "Trials" in figure or "trials" in figure
    assert "#000000" not in figure
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for text in (
        *(
            "Finished: 8 trials of sweeps, 0 other runs. Failed: 1 trial.",
            "n/s",
        ),
        *("best 5% of the trials", "43.00", "47.00", "watch auc"),
    ):
        assert text in page
        assert text in markdown
    assert "| top-k | 1 | 47.00 | 2.00 | 0.5300 | 0.9400 |" in markdown
    assert "](figures/tuning_cost_0.png)" in markdown


@pytest.mark.filterwarnings("default")
def test_trials_that_stayed_dense_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = [(0.1, 0.11), (0.3, 0.31), (0.2, 0.21)]
    sweep = write_sweep(tmp_path / "s", "comet", losses, experts=[3, 2, 2])
    out = str(tmp_path / "sparse")
    assert cli.run(["report", str(sweep), "--out", out]) == 0
    assert "warning: Left out for more than k" in capsys.readouterr().err
    text = (tmp_path / "sparse" / "report.md").read_text()
    assert "3 trials of sweeps" in text
    assert "completed trials: 1 of 3 of comet." in text
    assert "| comet | 2 | 20.00 | 21.00 |" in text
    assert "11.00" not in text
    out = str(tmp_path / "any")
    command = ["report", str(sweep), "--any-sparsity", "--out", out]
    assert cli.run(command) == 0
    assert not capsys.readouterr().err
    text = (tmp_path / "any" / "report.md").read_text()
    assert "| comet | 0 | 10.00 | 11.00 |" in text
    assert "Left out" not in text


def test_without_a_sparse_trial_the_rule_is_named(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s", "dselect-k", [(1, 1)], experts=[3])
    with pytest.raises(RunError, match="1 of 1 of dselect-k"):
        report([sweep], tmp_path / "report")


def test_names_are_escaped(two_sweeps: list[Path], tmp_path: Path) -> None:
    file = two_sweeps[0] / "trials.jsonl"
    file.write_text(file.read_text().replace('"synthetic"', '"a<b>|c"'))
    report(two_sweeps, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "a&lt;b&gt;|c, 8 experts" in page


def test_nothing_is_overwritten(two_sweeps: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        report(two_sweeps, two_sweeps[0])


def test_after_an_error_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no folder there"):
        report([tmp_path / "missing"], tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_command(
    two_sweeps: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "report"
    assert cli.run(["report", *map(str, two_sweeps), "--out", str(out)]) == 0
    assert f"Written to {out / 'index.html'}" in capsys.readouterr().out
    assert cli.run(["report", *map(str, two_sweeps), "--out", str(out)]) == 1
    assert "`out` must be a new or empty folder" in capsys.readouterr().err


@pytest.mark.once("torch")
def test_each_section_is_told_as_it_is_made(
    two_sweeps: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(two_sweeps, tmp_path / "silent")
    assert capsys.readouterr().out == ""
    with shown_progress():
        report(two_sweeps, tmp_path / "report")
    lines = capsys.readouterr().out.splitlines()
    told = [line.partition("] ")[2] for line in lines]
    assert told[0] == "Reading the runs"
    number = len(SECTIONS) + 1  # The baselines are first.
    assert told[1] == f"Section 1 of {number}: baselines"
    assert told[-2] == f"Section {number} of {number}: loss distributions"
    assert told[-1] == "Writing the page"
