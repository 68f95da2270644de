"""Logs with positions and propensities, planted so that the truth is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import Schema
from recsys.cli import run as command
from recsys.data.split_dataset import SPLITS
from recsys.measuring.measure import measure
from recsys.models.position_tower import POSITIONS
from recsys.models.scorer import Scores

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

RELEVANCE = np.array([0.9, 0.75, 0.6, 0.5, 0.25, 0.1])  # Of each item.
SEEN = np.array([1.0, 0.5, 0.2])  # At each position.
PREFERENCE = np.array([1.0, 1, 1, 4, 6, 8])  # What the log likes to show.
SCHEMA = Schema(
    "log",
    {"user": "id", "item": "id"},
    {"click": "binary", "liked": "binary"},
    group="request",
    position="place",
    propensity="chance",
)


def _rows(count: int, seed: int) -> pd.DataFrame:
    """Requests of three items, of which one is shown; bad ones on top.

    A click needs that the position is seen, which being liked does not.
    """
    rng = np.random.default_rng(seed)
    items = rng.random((count, 6)).argsort(axis=1)[:, :3]
    chances = PREFERENCE[items]
    chances /= chances.sum(axis=1, keepdims=True)
    shown = (rng.random((count, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    mask = np.arange(3) == shown[:, None]
    item = items[mask]
    draws = np.where(item < 3, 3, 1)
    place = np.where(rng.random(count) < 0.6, draws, rng.integers(1, 4, count))
    liked = rng.random(count) < RELEVANCE[item]
    click = liked & (rng.random(count) < SEEN[place - 1])
    rows = pd.DataFrame(
        {
            "user": np.repeat(2**53 + 1 + rng.integers(0, 40, count), 3),
            "item": np.char.add("é", items.ravel().astype(str)),
            "request": np.repeat([f"r{n}" for n in range(count)], 3),
        }
    )
    for name, values in (
        *(("click", click), ("liked", liked), ("place", place)),
        ("chance", chances[mask]),
    ):
        rows[name] = np.nan
        rows.loc[mask.ravel(), name] = np.asarray(values, float)
    return rows


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "data"
    parts = {"train": (6000, 0), "validation": (300, 1), "test": (1200, 2)}
    rows = {name: _rows(*given) for name, given in parts.items()}
    rows["train"] = rows["train"].dropna()  # Others have nothing to learn.
    Dataset(SCHEMA, rows).write(folder)
    return folder


@pytest.fixture(scope="module")
def run(
    log: Path, settings: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    changes = {"position_model": "pal", "epochs": 5, "patience": 5}
    fields = settings(
        out, data=str(log), batch_size=64, learning_rate=0.02, **changes
    )
    recsys.train(recsys.TrainConfig.from_mapping(fields))
    return out


def test_the_position_tower_finds_the_items_that_are_good(
    log: Path, run: Path
) -> None:
    train = recsys.load(log).split("train")
    rates = train.groupby("item")["click"].mean()
    assert rates["é3"] > rates["é0"]  # As clicks have it.
    items = pd.DataFrame({"item": rates.index, "user": 7})
    model = recsys.load_ranker(run)
    predicted = model.predict(items).set_index(rates.index)
    assert predicted["click"]["é0"] > predicted["click"]["é3"] + 0.2
    tower = model.position_tower
    assert tower is not None
    seen = tower(np.arange(5))
    found = np.ravel(recsys_numpy(seen["click"]))
    np.testing.assert_allclose(found[:3], SEEN, atol=0.2)
    np.testing.assert_array_equal(found[3:], found[2])  # Beyond the last.
    # Being liked does not depend on it. Only the choice of an epoch has
    # positions: what is served has none.
    assert recsys_numpy(seen["liked"])[2, 0] > 0.7
    inputs = model.encode(train.head(4))
    served = recsys_numpy(model(inputs, training=False)["click"])
    inputs[POSITIONS] = np.full(4, 2, np.int32)
    there = recsys_numpy(model(inputs, training=False)["click"])
    np.testing.assert_allclose(there, served * found[2], rtol=1e-5)


def test_positions_are_learned_from_a_stream_as_from_memory(
    log: Path, settings: Any, tmp_path: Path
) -> None:
    """Positions are no feature: rows read in parts have to bring them."""
    rows = {name: recsys.load(log).split(name)[:300] for name in SPLITS}
    Dataset(SCHEMA, rows).write(tmp_path / "few")
    weights = {}
    for streaming in (False, True):
        out = tmp_path / f"streaming {streaming}"
        fields = settings(
            out,
            data=str(tmp_path / "few"),
            position_model="pal",
            learning_rate=0.05,
            epochs=2,
            streaming=streaming,
        )
        recsys.train(recsys.TrainConfig.from_mapping(fields))
        weights[streaming] = recsys.load_ranker(out).get_weights()
    for held, streamed in zip(weights[False], weights[True], strict=True):
        np.testing.assert_allclose(streamed, held, rtol=1e-5, atol=1e-6)
    tower = recsys.load_ranker(tmp_path / "streaming True").position_tower
    assert tower is not None
    assert np.abs(recsys_numpy(tower.kernel)[1:]).min() > 0


def recsys_numpy(tensor: Any) -> np.ndarray:
    from keras import ops

    return np.asarray(ops.convert_to_numpy(tensor))


def test_propensities_put_models_into_the_right_order(log: Path) -> None:
    """One knows all items about, the other those that are often shown."""
    test = recsys.load(log).split("test")
    item = test["item"].str[1:].astype(int).to_numpy()
    fair = RELEVANCE + np.where(RELEVANCE > 0.5, -0.15, 0.15)
    biased = np.where(PREFERENCE > 1, RELEVANCE, 0.5)
    losses = {}
    for name, schema in {
        "naive": Schema("log", SCHEMA.features, SCHEMA.tasks),
        "unbiased": SCHEMA,
    }.items():
        for model, rates in (("fair", fair), ("biased", biased)):
            scores = Scores({"liked": rates[item]}, {})
            tasks = {"liked": SCHEMA.tasks["liked"]}
            roles = schema.roles(test)
            measured = measure(scores, test, tasks, {"liked": 1.0}, roles=roles)
            losses[name, model] = measured["tasks"]["liked"]["loss"]
    shown = test[test["chance"].notna()]
    own = shown["item"].str[1:].astype(int).to_numpy()
    # The truth: each item as often as it is a candidate.
    true = {
        name: -np.mean(RELEVANCE * np.log(p) + (1 - RELEVANCE) * np.log(1 - p))
        for name, p in (("fair", fair), ("biased", biased))
    }
    assert true["fair"] < true["biased"]
    assert losses["unbiased", "fair"] < losses["unbiased", "biased"]
    assert losses["naive", "biased"] < losses["naive", "fair"]
    assert own.mean() > item.mean()  # Bad items are shown more often.


def test_the_value_of_a_model_is_that_of_what_it_would_show(
    log: Path, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "value.json"
    words = ["--run", str(run), "--data", str(log), "--reward", "liked"]
    assert command(["off-policy", *words, "--out", str(out)]) == 0
    shown = capfd.readouterr().out
    assert "Doubly robust" in shown
    found = json.loads(out.read_text())
    assert (found["requests"], found["shown_rows"]) == (1200, 1200)
    assert found["clusters"] == 40
    test = recsys.load(log).split("test")
    predicted = recsys.load_ranker(run).predict(test)["liked"].to_numpy()
    best = predicted.reshape(-1, 3).argmax(axis=1)
    items = test["item"].str[1:].astype(int).to_numpy().reshape(-1, 3)
    truth = RELEVANCE[items[np.arange(1200), best]].mean()
    for name in ("ips", "snips", "doubly_robust"):
        low, high = found["values"][name]["interval"]
        assert low < truth < high, name
        assert low > found["values"]["logged"]["value"]
    all_shown = recsys.off_policy(run, log, "liked", top=3)
    assert all_shown["values"]["ips"]["value"] == pytest.approx(
        3 * RELEVANCE.mean(), abs=0.15
    )


def test_what_a_value_needs_is_named(
    log: Path, run: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="did you mean 'liked'"):
        recsys.off_policy(run, log, "licked")
    with pytest.raises(ValueError, match="`score`"):
        recsys.off_policy(run, log, "liked", score="likd * 2")
    with pytest.raises(ValueError, match="largest_weight"):
        recsys.off_policy(run, log, "liked", largest_weight=0)
    dataset = recsys.load(log)
    rows = {name: dataset.split(name) for name in dataset.splits}
    plain = Schema("log", SCHEMA.features, SCHEMA.tasks, group="request")
    Dataset(plain, rows).write(tmp_path / "plain")
    with pytest.raises(DataError, match="a 'propensity' in dataset"):
        recsys.off_policy(run, tmp_path / "plain", "liked")


def test_a_model_of_positions_needs_some(settings: Any, tmp_path: Path) -> None:
    fields = settings(tmp_path / "run", position_model="pal")
    with pytest.raises(ValueError, match="position_model` must be none"):
        recsys.train(recsys.TrainConfig.from_mapping(fields))
