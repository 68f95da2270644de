"""Items that a model can recommend without having been trained on them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.cli import run as command
from recsys.data import Dataset
from recsys.data import load
from recsys.data.formats.table import write_table
from recsys.runs.run import Run
from tests.recsys.retrieval.id_kinds import IdKinds

pytestmark = [pytest.mark.sampled(2), pytest.mark.slow]

NEW = (99, 100, 101)  # One of each genre.


@pytest.fixture(scope="session")
def new_items(ids: IdKinds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """New films of each genre, and a known one of another."""
    numbers = [*NEW, 5]
    genres = [[f"g{number % 3}"] for number in NEW] + [["g0"]]
    table = pd.DataFrame({"item": ids.items(numbers), "genres": genres})
    file = tmp_path_factory.mktemp("new") / "items.parquet"
    write_table(table.assign(title="not looked at"), file)
    return file


@pytest.fixture(scope="session")
def grown_run(
    retrieving_run: Path,
    new_items: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = tmp_path_factory.mktemp("grown") / "run"
    recsys.add_items(retrieving_run, new_items, out)
    return out


@pytest.mark.once("torch")
def test_known_items_stay_what_they_are(
    retrieving_run: Path, grown_run: Path, films: Dataset, ids: IdKinds
) -> None:
    before = Run(retrieving_run).load_two_tower()
    after = Run(grown_run).load_two_tower()
    np.testing.assert_allclose(
        after.retrieval.vectors[:30], before.retrieval.vectors, atol=1e-6
    )
    assert after.retrieval.num_items == 33
    shares = ops.convert_to_numpy(after.retrieval.sampling)
    np.testing.assert_allclose(shares[31:], shares[1:31].mean(), rtol=1e-5)
    rows = films.split("test")
    known = rows[rows["item"].isin(ids.items(range(30)))]
    pd.testing.assert_frame_equal(
        after.predict(known), before.predict(known), rtol=1e-5
    )
    genres = after.fitted["genres"].encode(pd.Series([["g0"], ["g1"], ["g2"]]))
    found = ops.convert_to_numpy(after.retrieval.features["genres"])[-3:]
    np.testing.assert_array_equal(found[:, :1], genres[:, :1])


@pytest.mark.once("torch")
def test_new_items_are_found_by_their_features(
    grown_run: Path, films: Dataset, ids: IdKinds
) -> None:
    ranker = Run(grown_run).load_two_tower()
    numbers = ranker.fitted["item"].encode(pd.Series(ids.items(NEW)))
    rows = films.split("train")
    queries = ops.convert_to_numpy(ranker.query_vectors(ranker.encode(rows)))
    scores = queries @ ranker.retrieval.vectors[numbers - 1].T  # (B, 3)
    users = rows["user"].map({ids.user(user): user for user in range(12)})
    of_genre = users.to_numpy() % 3
    assert (scores.argmax(axis=1) == of_genre).mean() > 0.9  # By chance 1/3.


@pytest.mark.traced_once("jax")
def test_rows_with_new_items_are_found_then(
    retrieving_run: Path, grown_run: Path
) -> None:
    data = Run(grown_run).read_config().data
    before, after = (
        recsys.evaluate(run, data, metrics_k=15)["retrieval"]
        for run in (retrieving_run, grown_run)
    )
    assert (before["items"], after["items"]) == (30, 33)
    assert after["recall@15"] > before["recall@15"]


@pytest.mark.once("torch")
def test_the_command_adds_what_is_recommended_then(
    retrieving_run: Path,
    new_items: Path,
    ids: IdKinds,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["--run", str(retrieving_run), "--items", str(new_items)]
    assert command(["add-items", *words, "--out", str(tmp_path / "run")]) == 0
    shown = capfd.readouterr().out
    assert "(" in shown
    assert "33 items)" in shown
    found = recsys.recommend(tmp_path / "run", ids.user(1), top=33)
    assert ids.item(100) in found["item"].tolist()
    # Once more, there is none that is new.
    words[1] = str(tmp_path / "run")
    out = ["--out", str(tmp_path / "again")]
    assert command(["add-items", *words, *out]) == 1
    assert "an item that the run does not know" in capfd.readouterr().err
    assert not (tmp_path / "again").exists()


@pytest.mark.once("torch")
def test_an_interruption_leaves_nothing(
    retrieving_run: Path,
    new_items: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recsys.api.add_items.write_outcome", press)
    with pytest.raises(KeyboardInterrupt):
        recsys.add_items(retrieving_run, new_items, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.once("torch")
def test_a_run_goes_on_from_one_with_more_items(
    grown_run: Path, ids: IdKinds, tmp_path: Path
) -> None:
    data = Run(grown_run).read_config().data
    recsys.train(
        {
            "data": data,
            "warm_start": str(grown_run),
            "out": str(tmp_path / "run"),
            "epochs": 1,
        }
    )
    vocabulary = Run(tmp_path / "run").load_two_tower().vocabularies["item"]
    assert vocabulary.values.tolist()[30:33] == ids.items(NEW)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"genres": [["g0"] * 99]}, "lists of at most 1 values"),
        ({"item": [None]}, "an item that the run does not know"),
    ],
)
def test_what_cannot_be_added_is_refused(
    change: dict[str, Any],
    message: str,
    retrieving_run: Path,
    ids: IdKinds,
    tmp_path: Path,
) -> None:
    columns = {"item": [ids.item(99)], "genres": [["g0"]], **change}
    write_table(pd.DataFrame(columns), tmp_path / "items.parquet")
    out = tmp_path / "run"
    with pytest.raises(recsys.DataError, match=message):
        recsys.add_items(retrieving_run, tmp_path / "items.parquet", out)
    assert not out.exists()


@pytest.mark.once("torch")
def test_the_features_of_items_must_be_there(
    retrieving_run: Path, ids: IdKinds, tmp_path: Path
) -> None:
    write_table(pd.DataFrame({"item": [ids.item(99)]}), tmp_path / "items.csv")
    with pytest.raises(recsys.DataError, match="genres"):
        recsys.add_items(
            retrieving_run, tmp_path / "items.csv", tmp_path / "run"
        )
    assert load(Run(retrieving_run).read_config().data)
