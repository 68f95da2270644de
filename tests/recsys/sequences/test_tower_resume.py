"""A training that was killed while, or after, its tower was trained."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.data import load
from recsys.runs.run import Run
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.tower_training import TowerTraining
from tests.recsys.sequences.conftest import fields
from tests.recsys.sequences.test_default_tower import with_integers
from tests.recsys.sequences.test_tower_options import with_likes

EPOCHS = 4


@pytest.fixture(params=["texts", "integers"])
def folder(request: pytest.FixtureRequest, data: Path, tmp_path: Path) -> Path:
    if request.param == "texts":
        return data
    with_integers(load(data)).write(tmp_path / "integers")
    return tmp_path / "integers"


def counted(patch: pytest.MonkeyPatch) -> list[int]:
    """Each epoch of a tower puts its number at the end of what it returns."""
    epochs: list[int] = []
    fit_epoch = TowerTraining.fit_epoch

    def fit(training: TowerTraining, *given: Any) -> float:
        epochs.append(len(epochs) + 1)
        return fit_epoch(training, *given)

    patch.setattr(TowerTraining, "fit_epoch", fit)
    return epochs


def check_resumed(given: dict[str, Any], metrics: Any, killed: Run) -> None:
    """Goes on with a killed run, which ends as the whole one has."""
    whole = Run(given["out"])
    again = {**given, "out": str(killed.folder)}
    assert recsys.train(again, resume=True) == metrics
    ours, others = (run.load_model().weights for run in (killed, whole))
    for mine, theirs in zip(ours, others, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(mine), ops.convert_to_numpy(theirs), mine.path
        )
    pd.testing.assert_frame_equal(
        pd.read_csv(killed.tower_history), pd.read_csv(whole.tower_history)
    )
    assert not killed.checkpoint.exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("refit", "at"), [(False, 3), (True, EPOCHS + 2)], ids=["first", "refit"]
)
def test_a_tower_goes_on_where_it_was(
    folder: Path,
    refit: bool,
    at: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    # The refit has at least two epochs.
    given = fields(
        folder,
        whole.folder,
        refit=refit,
        tower_dropout=0.2,
        tower_learning_rate=0.005,
    )
    with monkeypatch.context() as patch:
        epochs = counted(patch)
        fit_epoch = TowerTraining.fit_epoch

        def copy(training: TowerTraining, *given: Any) -> float:
            if len(epochs) + 1 == at:
                shutil.copytree(whole.folder, killed.folder)
            return fit_epoch(training, *given)

        patch.setattr(TowerTraining, "fit_epoch", copy)
        metrics = recsys.train(given)
        in_all = len(epochs)
        epochs.clear()
        check_resumed(given, metrics, killed)
    assert len(epochs) == in_all - (at - 1)


@pytest.mark.once("torch")
def test_a_tower_is_not_trained_again_where_the_tasks_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    likes = with_likes(folder, tmp_path / "likes")
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    given = fields(
        likes, whole.folder, epochs=2, refit=False, tower_dropout=0.2
    )

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) == (1, 0):
            shutil.copytree(whole.folder, killed.folder)

    with monkeypatch.context() as patch:
        epochs = counted(patch)
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        metrics = recsys.train(given)
        assert epochs.pop() == EPOCHS
        patch.undo()
    epochs = counted(monkeypatch)
    check_resumed(given, metrics, killed)
    assert not epochs


@pytest.mark.once("torch")
def test_ctrl_c_leaves_the_best_epoch_and_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = Run(tmp_path / "whole"), Run(tmp_path / "stopped")
    given = fields(folder, whole.folder)
    metrics = recsys.train(given)
    with monkeypatch.context() as patch:
        epochs = counted(patch)
        fit_epoch = TowerTraining.fit_epoch

        def stop(training: TowerTraining, *given: Any) -> float:
            if len(epochs) == 2:
                raise KeyboardInterrupt
            return fit_epoch(training, *given)

        patch.setattr(TowerTraining, "fit_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            recsys.train({**given, "out": str(stopped.folder)})
    best = pd.read_csv(stopped.tower_history)["val_ndcg@3"].max()
    measured = stopped.read_metrics()["validation"]["retrieval"]
    assert measured["ndcg@3"] == pytest.approx(best, abs=1e-6)
    check_resumed(given, metrics, stopped)


@pytest.mark.once("torch")
def test_a_validation_split_that_counts_for_nothing_is_an_error(
    folder: Path, tmp_path: Path
) -> None:
    likes = with_likes(folder, tmp_path / "likes")
    given = load(likes)
    splits = {**given.splits}
    splits["validation"] = splits["validation"].assign(like=0.0)
    given.write(tmp_path / "first")
    type(given)(given.schema, splits).write(tmp_path / "none")
    config = fields(tmp_path / "none", tmp_path / "run", retrieval_label="like")
    with pytest.raises(recsys.DataError, match="validation"):
        recsys.train(config)
