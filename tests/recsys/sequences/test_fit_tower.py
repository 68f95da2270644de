from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops
from rich.progress import Progress

import recsys
from recsys.data import load
from recsys.data.datasets.sequences import sequences
from recsys.runs.run import Run
from tests.recsys.sequences.conftest import fields


def epochs_of(run: Run) -> pd.DataFrame:
    return pd.read_csv(run.tower_history)


def after(place: int) -> str:
    return f"i{(place + 1) % 12}"


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_the_tower_learns_what_comes_next(run: Run) -> None:
    losses = epochs_of(run)["loss"]
    assert losses.iloc[-1] < 0.5 * np.log(12) < losses.iloc[0]
    metrics = run.read_metrics()
    for split in ("validation", "test"):
        measured = metrics[split]["retrieval"]
        assert measured["rows"] == 60
        assert measured["items"] == 12
        assert measured["recall@3"] > 0.9  # By chance 0.25.
        assert measured["ndcg@3"] > 0.8


def test_the_epoch_of_the_highest_ndcg_is_kept(run: Run) -> None:
    best = epochs_of(run)["val_ndcg@3"].max()
    measured = run.read_metrics()["validation"]["retrieval"]
    assert measured["ndcg@3"] == pytest.approx(best, abs=1e-6)


def test_what_was_saved_measures_the_same(run: Run, data: Path) -> None:
    metrics = recsys.evaluate(run.folder, data)
    expected = run.read_metrics()["test"]["retrieval"]
    found = metrics["retrieval"]
    for part in ("popular", "diversity"):
        assert found.pop(part) == pytest.approx(expected.pop(part))
    assert found == pytest.approx(expected, abs=1e-6)
    assert run.read_config().ranker is False


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_a_known_user_gets_what_follows_the_training_rows(
    run: Run, data: Path
) -> None:
    train = load(data).split("train")
    for user in ("u0", "u7"):
        last = train[train["user"] == user].iloc[-1]
        items = [*last["history"], last["item"]]
        found = recsys.recommend(run.folder, user, top=12)
        by_history = recsys.recommend(
            run.folder, "nobody", top=12, features={"history": items}
        )
        assert found.columns.tolist() == ["item", "score"]
        pd.testing.assert_frame_equal(found, by_history)
        ranker = run.load_two_tower()
        history = np.full((1, 6), -1, np.int32)
        encoded = ranker.fitted["item"].encode(pd.Series(items[-6:]))
        history[0, : len(encoded)] = encoded
        query = ops.convert_to_numpy(ranker.retrieval.query_tower(history))
        scores = np.sort(ranker.retrieval.vectors @ query[0])[::-1]
        np.testing.assert_allclose(found["score"], scores, rtol=1e-4)
        place = int(str(last["item"])[1:])
        assert after(place) in found["item"].tolist()[:2]


@pytest.mark.traced_once("jax")
def test_items_of_the_history_are_left_out(run: Run) -> None:
    given: Any = {"history": "new|i3|i4"}
    found = recsys.recommend(
        run.folder, "nobody", top=12, exclude_seen=True, features=given
    )
    assert found["item"].iloc[0] == "i5"
    assert sorted(found["item"]) == sorted(
        f"i{place}" for place in range(12) if place not in (3, 4)
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "ids", ["i{}".format, lambda place: 2**53 + 2 * place + 1]
)
def test_a_refit_learns_from_the_validation_split_too(
    ids: Callable[[int], object], tmp_path: Path
) -> None:
    # In training, users go from 0 to 1 to 2; in the other splits, from 2 to 3,
    # which nobody does in training.
    lines = [f"{user} {ids(3)} {ids(0)} {ids(1)} {ids(2)}" for user in range(8)]
    more = [
        f"{10 + user} {ids(0)} {ids(1)} {ids(2)} {ids(3)} {ids(0)}"
        for user in range(30)
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines + more))
    sequences(
        tmp_path, 0, Progress(disable=True), file="log.txt", length=4
    ).write(tmp_path / "data")
    metrics, queries = {}, {}
    for refit in (False, True):
        out = tmp_path / f"run-{refit}"
        given = fields(tmp_path / "data", out, refit=refit, tower_tokens=20)
        metrics[refit] = recsys.train(given)
        found = recsys.recommend(
            out, "new", features={"history": [ids(0), ids(1), ids(2)]}
        )
        scores = found.set_index("item")["score"]
        queries[refit] = scores[ids(3)] - scores[ids(0)]
    # The validation split is measured before it is learned.
    assert metrics[True]["validation"] == metrics[False]["validation"]
    assert queries[False] < 0 < queries[True]
    losses = epochs_of(Run(tmp_path / "run-True"))
    pd.testing.assert_frame_equal(
        losses, epochs_of(Run(tmp_path / "run-False"))
    )


@pytest.mark.traced_once("jax")
def test_tasks_without_a_ranker_are_measured_by_their_constants(
    run: Run, data: Path
) -> None:
    for metrics in (
        run.read_metrics()["test"],
        recsys.evaluate(run.folder, data),
    ):
        task = metrics["tasks"]["chosen"]
        constant = task.pop("constant")
        assert task == constant
        assert metrics["experts_per_example"] is None
