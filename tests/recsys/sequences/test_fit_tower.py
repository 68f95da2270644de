from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.data import load
from recsys.runs.run import Run
from recsys.training.fit_tower import HISTORY


def epochs_of(run: Run) -> pd.DataFrame:
    return pd.read_csv(run.folder / HISTORY)


def after(place: int) -> str:
    return f"i{(place + 1) % 12}"


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
    assert found.pop("popular") == pytest.approx(expected.pop("popular"))
    assert found == pytest.approx(expected, abs=1e-6)
    assert run.read_config().ranker is False


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


def test_items_of_the_history_are_left_out(run: Run) -> None:
    given: Any = {"history": "new|i3|i4"}
    found = recsys.recommend(
        run.folder, "nobody", top=12, exclude_seen=True, features=given
    )
    assert found["item"].iloc[0] == "i5"
    assert sorted(found["item"]) == sorted(
        f"i{place}" for place in range(12) if place not in (3, 4)
    )
