"""A training that was killed while, or after, its tower was trained."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.data import Dataset
from recsys.data import load
from recsys.runs.run import Run
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.tower_training import TowerTraining
from tests.recsys.sequences.conftest import fields
from tests.recsys.sequences.test_tower_options import with_likes

EPOCHS = 4
# The epoch of the first training before which a run is killed; in the refit, it
# is the last one.
FIRST = 3


@dataclass(frozen=True)
class Whole:
    """A run that was not interrupted.

    Attributes:
        given: Its configuration.
        metrics: Its metrics.
        epochs: How many epochs its tower was trained, in both trainings.
        killed: What was in its folder before an epoch, by the epoch.
    """

    given: dict[str, Any]
    metrics: Any
    epochs: int
    killed: dict[int, Path]

    def check(self, again: Run) -> None:
        """Goes on with an interrupted run, which is to end like this one."""
        given = {**self.given, "out": str(again.folder)}
        assert recsys.train(given, resume=True) == self.metrics
        check_same(Run(self.given["out"]), again)


def check_same(whole: Run, again: Run) -> None:
    """Checks that two runs have the same weights and epochs of towers."""
    ours, theirs = (run.load_model().weights for run in (whole, again))
    for mine, wanted in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(mine), ops.convert_to_numpy(wanted), mine.path
        )
    pd.testing.assert_frame_equal(
        *(pd.read_csv(run.tower_history) for run in (whole, again))
    )
    assert not again.checkpoint.exists()


def before_epochs(
    patch: pytest.MonkeyPatch, then: Callable[[int], None]
) -> list[int]:
    """Calls something before each epoch of towers, and returns their list.

    The list gets the number of each epoch, from 1 on, in a process.
    """
    epochs: list[int] = []
    fit_epoch = TowerTraining.fit_epoch

    def fit(training: TowerTraining, *given: Any) -> float:
        epochs.append(len(epochs) + 1)
        then(epochs[-1])
        return fit_epoch(training, *given)

    patch.setattr(TowerTraining, "fit_epoch", fit)
    return epochs


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    run, killed = Run(root / "run"), {}
    given = fields(
        folder,
        run.folder,
        refit=True,
        tower_dropout=0.2,
        tower_id_dropout=0.3,
        tower_learning_rate=0.005,
    )

    def copy(epoch: int) -> None:
        killed[epoch] = root / f"killed-{epoch}"
        shutil.copytree(run.folder, killed[epoch])

    with pytest.MonkeyPatch.context() as patch:
        epochs = before_epochs(patch, copy)
        metrics = recsys.train(given)
    return Whole(given, metrics, len(epochs), killed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stage", ["first", "refit"])
def test_a_tower_goes_on_where_it_was(
    whole: Whole, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = FIRST if stage == "first" else whole.epochs
    assert (at > EPOCHS) == (stage == "refit")
    epochs = before_epochs(monkeypatch, lambda _: None)
    whole.check(Run(whole.killed[at]))
    assert len(epochs) == whole.epochs - (at - 1)


@pytest.mark.once("torch")
def test_ctrl_c_leaves_the_best_epoch_and_goes_on(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Run(tmp_path / "stopped")

    def stop(epoch: int) -> None:
        if epoch == FIRST:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        before_epochs(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            recsys.train({**whole.given, "out": str(stopped.folder)})
    best = pd.read_csv(stopped.tower_history)["val_ndcg@3"].max()
    measured = stopped.read_metrics()["validation"]["retrieval"]
    assert measured["ndcg@3"] == pytest.approx(best, abs=1e-6)
    whole.check(stopped)


@pytest.mark.once("torch")
def test_a_tower_is_not_trained_again_where_the_tasks_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    likes = with_likes(folder, tmp_path / "likes")
    run, killed = Run(tmp_path / "run"), Run(tmp_path / "killed")
    given = fields(likes, run.folder, epochs=2, refit=False, tower_dropout=0.2)

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) == (1, 0):
            shutil.copytree(run.folder, killed.folder)

    with monkeypatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        metrics = recsys.train(given)
    epochs = before_epochs(monkeypatch, lambda _: None)
    again = {**given, "out": str(killed.folder)}
    assert recsys.train(again, resume=True) == metrics
    check_same(run, killed)
    assert not epochs


@pytest.mark.once("torch")
def test_a_validation_split_that_counts_for_nothing_is_an_error(
    folder: Path, tmp_path: Path
) -> None:
    likes = load(with_likes(folder, tmp_path / "likes"))
    assert isinstance(likes, Dataset)
    rows = likes.splits["validation"].assign(like=0.0)
    splits = {**likes.splits, "validation": rows}
    replace(likes, splits=splits).write(tmp_path / "none")
    given = fields(tmp_path / "none", tmp_path / "run", retrieval_label="like")
    with pytest.raises(recsys.DataError, match="validation"):
        recsys.train(given)
