import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from keras_moe.layers import MoE
from recsys.cli import run as command
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.models.two_tower import TwoTower
from recsys.private_names import each_layer
from recsys.runs.run import Run
from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.transformer_block import TransformerBlock
from recsys.training.fit_tower import training_sequences
from tests.recsys.sequences.conftest import fields

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]


def blocks_of(run: Run) -> Any:
    return run.load_two_tower().retrieval.query_tower.tower.blocks


@pytest.mark.parametrize("tower", ["transformer", "hstu"])
def test_the_command_trains_what_it_names(
    tower: str, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--retrieval", "--tower", tower, "--tower-temperature", "0.1"]
    for name, value in fields(data, tmp_path / "run").items():
        if name not in ("retrieval", "tower", "tower_epochs", "refit"):
            value = value[0] if isinstance(value, list) else value
            words += [f"--{name.replace('_', '-')}", str(value)]
    assert command(["train", *words, "--tower-epochs", "1", "--no-refit"]) == 0
    shown = capfd.readouterr()
    assert "Retrieval, test: recall@3" in shown.out
    # Nothing of tasks and gates that were not trained.
    assert "Experts" not in shown.out
    assert "gate" not in shown.err
    run = Run(tmp_path / "run")
    kind = {"transformer": TransformerBlock, "hstu": HSTUBlock}[tower]
    assert all(isinstance(block, kind) for block in blocks_of(run))
    assert len(pd.read_csv(run.tower_history)) == 1
    words = ["recommend", "--run", str(run.folder), "--user", "u1"]
    assert command([*words, "--feature", "history=i1|i2"]) == 0
    assert "i3" in capfd.readouterr().out


def test_feed_forward_layers_may_be_sparse_mixtures(
    data: Path, tmp_path: Path
) -> None:
    recsys.train(
        fields(
            data,
            tmp_path / "run",
            tower_gate="top-k",
            tower_experts=4,
            tower_k=2,
            tower_epochs=1,
            target_statistics=True,
        )
    )
    model = Run(tmp_path / "run").load_two_tower()
    assert model.statistics is None  # Those of labels are for a ranker.
    (block,) = blocks_of(Run(tmp_path / "run"))
    assert isinstance(block.feed_forward, MoE)
    kernels = [kernel.shape for kernel in block.feed_forward.experts.kernels]
    assert kernels == [(4, 16, 32), (4, 32, 16)]  # Two are as wide as one.


def test_half_precision_is_that_of_training_alone(
    run: Run, data: Path, tmp_path: Path
) -> None:
    recsys.train(
        fields(
            data, tmp_path / "run", tower_epochs=4, tower_precision="bfloat16"
        )
    )
    rough = Run(tmp_path / "run")
    losses = [
        pd.read_csv(each.tower_history)["loss"].to_numpy()
        for each in (run, rough)
    ]
    np.testing.assert_allclose(*losses, rtol=0.05)
    assert (losses[0] != losses[1]).all()
    assert rough.read_config().tower_precision == "bfloat16"
    dtypes = {
        layer.compute_dtype
        for block in blocks_of(rough)
        for layer in each_layer(block)
    }
    assert dtypes == {"float32"}
    # What was measured is what is loaded.
    metrics = recsys.evaluate(rough.folder, data)["retrieval"]
    measured = rough.read_metrics()["test"]["retrieval"]
    assert metrics["ndcg@3"] == pytest.approx(measured["ndcg@3"], abs=1e-6)


def with_likes(data: Path, folder: Path) -> Path:
    """The same rows with a task whose labels differ."""
    given = load(data)
    assert isinstance(given, Dataset)
    schema = Schema(
        "likes",
        given.schema.features,
        {"like": "binary"},
        time="position",
        item="item",
        item_features=["attributes"],
    )
    splits = {
        name: rows.assign(like=(np.arange(len(rows)) % 4 > 0).astype(float))
        for name, rows in given.splits.items()
    }
    columns = [*schema.columns]
    Dataset(
        schema, {name: rows[columns] for name, rows in splits.items()}
    ).write(folder)
    return folder


def test_tasks_whose_labels_differ_are_trained_behind_the_tower(
    data: Path, tmp_path: Path
) -> None:
    likes = with_likes(data, tmp_path / "likes")
    runs = {}
    for name, ranker in (("both", None), ("alone", False)):
        given = fields(
            likes, tmp_path / name, ranker=ranker, epochs=1, tower_epochs=1
        )
        recsys.train(given)
        runs[name] = Run(tmp_path / name)
    both, alone = (runs[name].load_two_tower() for name in ("both", "alone"))
    assert runs["both"].read_config().ranker is True
    np.testing.assert_array_equal(
        both.retrieval.vectors, alone.retrieval.vectors
    )
    towers = (both.retrieval.query_tower, alone.retrieval.query_tower)
    for one, other in zip(*(tower.weights for tower in towers), strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(one), ops.convert_to_numpy(other)
        )
    assert runs["both"].history.is_file()
    found = recsys.recommend(runs["both"].folder, "u1", top=3)
    assert found["score"].tolist() == found["like"].tolist()
    fits = recsys.recommend(
        runs["both"].folder, "u1", top=3, candidates=3, score="retrieval"
    )
    by_tower = recsys.recommend(runs["alone"].folder, "u1", top=3)
    assert fits["item"].tolist() == by_tower["item"].tolist()
    np.testing.assert_allclose(fits["score"], by_tower["score"], rtol=1e-5)
    with pytest.raises(ValueError, match="names retrieval"):
        recsys.recommend(runs["alone"].folder, "u1", score="like")


def test_rows_with_another_label_are_in_no_sequence(
    data: Path, tmp_path: Path
) -> None:
    likes = with_likes(data, tmp_path / "likes")
    given = fields(likes, tmp_path / "run", tower_epochs=1, ranker=False)
    recsys.train(given)
    run = Run(tmp_path / "run")
    dataset, ranker = load(likes), run.load_two_tower()
    found = training_sequences(ranker, dataset, run.read_config())
    train = dataset.split("train")
    liked = train[train["like"] == 1]
    for user, (_, rows) in enumerate(liked.groupby("user", sort=False)):
        expected = ranker.fitted["item"].encode(rows["item"])
        np.testing.assert_array_equal(found[user], expected)


def test_items_of_the_history_count_as_seen(run: Run, data: Path) -> None:
    """An item that is seen is no candidate, unless it is looked for."""
    config = ResolvedConfig(
        **{**run.read_config().to_mapping(), "retrieval_exclude_seen": True}
    )
    ranker, dataset = run.load_two_tower(), load(data)
    rows = dataset.split("test").iloc[:20].reset_index(drop=True)
    only = Dataset(dataset.schema, {**dataset.splits, "test": rows})
    measured = measure_retrieval(ranker, only, "test", config)["retrieval"]
    found = []
    train = dataset.split("train")
    for row in range(20):
        one = rows.iloc[[row]]
        query = ops.convert_to_numpy(ranker.query_vectors(ranker.encode(one)))
        scores = ranker.retrieval.vectors @ query[0]
        own = train[train["user"] == one["user"].iloc[0]]["item"]
        seen = {*own, *one["history"].iloc[0]} - {one["item"].iloc[0]}
        numbers = ranker.fitted["item"].encode(pd.Series([*seen], dtype=object))
        scores[numbers - 1] = -np.inf
        (target,) = ranker.fitted["item"].encode(one["item"])
        found.append((scores > scores[target - 1]).sum() < 3)
    assert measured["recall@3"] == pytest.approx(np.mean(found))
    few = measure_retrieval(ranker, dataset, "test", config, most_rows=7)
    assert few["retrieval"]["rows"] == 7


def test_seen_targets_may_be_misses(run: Run, data: Path) -> None:
    """Whoever has an item again is not found, whatever the model says."""
    ranker, dataset = run.load_two_tower(), load(data)
    rows = dataset.split("test").iloc[:8].reset_index(drop=True)
    again = [before[-1] for before in rows["history"]]
    rows["item"] = again[:6] + rows["item"].tolist()[6:]
    train = dataset.split("train").groupby("user")["item"].agg(set)
    fresh = [
        row["item"] not in {*train[row["user"]], *row["history"]}
        for _, row in rows.iterrows()
    ]
    assert 0 < sum(fresh) <= 2
    only = Dataset(dataset.schema, {**dataset.splits, "test": rows})
    found = []
    for targets in (False, True):
        config = ResolvedConfig(
            **{
                **run.read_config().to_mapping(),
                "retrieval_exclude_seen": True,
                "retrieval_exclude_seen_targets": targets,
            }
        )
        measured = measure_retrieval(ranker, only, "test", config, k=99)
        found.append(measured["retrieval"]["recall@99"])
    assert found == [1.0, sum(fresh) / 8]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"retrieval_exclude_seen": False,
          "retrieval_exclude_seen_targets": True},
         "`retrieval_exclude_seen` must be True with "
         "retrieval_exclude_seen_targets. Received: "
         "retrieval_exclude_seen=False"),
        ({"retrieval": False}, "`retrieval` must be True with tower. "
         "Received: retrieval=False"),
        ({"distribute": "data"}, "`distribute` must be 'none' with a sequence "
         "tower. Received: distribute='data', tower='transformer'"),
        ({"retrieval": False, "tower": None, "tower_gate": "top-k"},
         "`retrieval` must be True with tower_gate. Received: "
         "retrieval=False"),
        ({"tower": "dense", "tower_gate": "top-k"}, "`tower_gate` must be left "
         "out unless the tower is transformer"),
        ({"tower": None, "ranker": False, "select": "tasks"},
         "`ranker` must be True, or left "
         "out, without towers that are trained by themselves. Received: "
         "ranker=False"),
        ({"tower_heads": 3}, "`tower_heads` must divide the width of the "
         "tower, 16. Received: tower_heads=3"),
        ({"tower_gate": "top-k", "tower_k": 9}, "`tower_k` must be at most 8, "
         "the number of experts. Received: tower_k=9"),
        ({"tower": "hstu", "tower_gate": "top-k"}, "`tower_gate` must be left "
         "out unless the tower is transformer, which has feed-forward layers. "
         "Received: tower_gate='top-k', tower='hstu'"),
        ({"tower_gate": "expert-choice"}, "Received: tower_gate="
         "'expert-choice'"),
        ({"tower": "lstm"}, "Received: tower='lstm'"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_are_refused(
    given: dict[str, Any], message: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        recsys.train(fields(data, tmp_path / "run", **given))


def test_data_without_a_history_are_refused(data: Path, tmp_path: Path) -> None:
    given = load(data)
    schema = Schema("bare", {"user": "id", "item": "id"}, {"chosen": "binary"})
    splits = {
        name: rows[["user", "item", "chosen"]]
        for name, rows in given.splits.items()
    }
    Dataset(schema, splits).write(tmp_path / "bare")
    message = "a feature of type sequence that is `of` the item 'item'"
    with pytest.raises(DataError, match=message):
        recsys.train(fields(tmp_path / "bare", tmp_path / "run"))


def test_an_untrained_ranker_is_a_ranker(run: Run) -> None:
    assert isinstance(run.load_model(), TwoTower)
