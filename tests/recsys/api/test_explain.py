import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import recsys
from recsys import Dataset
from recsys.cli import run as recsys_command
from recsys.measuring.measure import trained_loss

pytestmark = pytest.mark.once("torch")


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy, which the test may write to."""
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.mark.slow
def test_importance_is_what_shuffling_costs(
    own_run: Path, data: Path, tiny: Dataset, tmp_path: Path
) -> None:
    importance = recsys.explain(own_run, data, repeats=1)
    rows = tiny.split("test").reset_index(drop=True)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = rows.assign(user=rows["user"].array[order])
    folder = tmp_path / "shuffled"
    Dataset(tiny.schema, {**tiny.splits, "test": shuffled}).write(folder)
    before, after = (recsys.evaluate(own_run, one) for one in (data, folder))
    growth = after["loss"] - before["loss"]
    assert growth != 0
    expected = {"mean": pytest.approx(growth, rel=1e-4), "deviation": 0}
    assert importance["total"]["user"] == expected
    for task, growths in importance["tasks"].items():
        growth = trained_loss(after["tasks"][task])
        growth -= trained_loss(before["tasks"][task])
        assert growths["user"]["mean"] == pytest.approx(growth, rel=1e-4)


@pytest.mark.draws
@pytest.mark.slow
def test_the_most_important_comes_first_and_a_constant_costs_nothing(
    own_run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    splits = {name: rows.assign(age=7.0) for name, rows in tiny.splits.items()}
    Dataset(tiny.schema, splits).write(tmp_path / "data")
    importance = recsys.explain(own_run, tmp_path / "data", repeats=4)
    assert importance["total"]["age"] == {"mean": 0, "deviation": 0}
    means = [growth["mean"] for growth in importance["total"].values()]
    assert means == sorted(means, reverse=True)
    written = json.loads((own_run / "importance.json").read_text())
    assert written == importance
    assert (own_run / "plots" / "importance.png").stat().st_size > 1000
    again = recsys.explain(own_run, tmp_path / "data", repeats=4)
    assert again == importance


@pytest.mark.slow
def test_the_command_tells_the_features(
    own_run: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["explain", "--run", str(own_run), "--data", str(data)]
    assert recsys_command([*words, "--repeats", "1"]) == 0
    shown = capsys.readouterr().out
    assert "loss of 40 rows when a feature is shuffled" in shown
    for name in ("user", "film", "age"):
        assert f"  {name}\n" in shown


@pytest.mark.slow
@pytest.mark.once("torch")
def test_nothing_is_written_through_links(
    own_run: Path, data: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.json").write_text("kept")
    shutil.rmtree(own_run / "plots")
    (own_run / "plots").symlink_to(outside)
    with pytest.raises(recsys.RunError, match=r"plots: .* a link to .*outside"):
        recsys.explain(own_run, data, repeats=1)
    assert [file.name for file in outside.iterdir()] == ["kept.json"]
    (own_run / "plots").unlink()
    # A file is replaced, whatever it was.
    (own_run / "importance.json").symlink_to(outside / "kept.json")
    recsys.explain(own_run, data, repeats=1)
    assert (outside / "kept.json").read_text() == "kept"
    assert not (own_run / "importance.json").is_symlink()


def test_what_is_wrong_is_told(tmp_path: Path, data: Path) -> None:
    with pytest.raises(recsys.RunError, match=r"without config\.json"):
        recsys.explain(tmp_path, data)
    with pytest.raises(ValueError, match="`repeats` must be at least 1"):
        recsys.explain(tmp_path, data, repeats=0)
