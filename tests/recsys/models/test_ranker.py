from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from recsys import Dataset
from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.models.build import build_ranker
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.training.resolve_config import resolve_config
from tests.gradients import weight_gradient

pytestmark = pytest.mark.usefixtures("compiled_calls")


def build(tiny: Dataset, **changes: Any) -> Ranker:
    fields = {
        "gate": "comet",
        "num_experts": 4,
        "embedding_dim": 4,
        "expert_units": [8],
        "head_units": [4],
    }
    config = TrainConfig("synthetic", "run", **(fields | changes))
    return build_ranker(resolve_config(config, tiny.schema), tiny)


def predict(ranker: Ranker, frame: pd.DataFrame) -> dict[str, Any]:
    outputs = ranker(ranker.encode(frame))
    return {task: to_numpy(values) for task, values in outputs.items()}


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("gate", GATES)
def test_predicts_with_every_gate(gate: str, tiny: Dataset) -> None:
    outputs = predict(build(tiny, gate=gate), tiny.split("test"))
    assert {task: values.shape for task, values in outputs.items()} == {
        "watch": (40, 1),
        "rating": (40, 1),
    }
    assert ((outputs["watch"] > 0) & (outputs["watch"] < 1)).all()
    assert all(values.dtype == np.float32 for values in outputs.values())


@pytest.mark.traced_once("tensorflow")
def test_has_the_published_sizes(tiny: Dataset) -> None:
    config = TrainConfig("synthetic", "run", preset="movielens")
    ranker = build_ranker(resolve_config(config, tiny.schema), tiny)
    shapes = [tuple(weight.shape) for weight in ranker.weights]
    assert shapes.count((13, 128)) == 2
    assert (16, 265, 256) in shapes
    assert shapes.count((256, 256)) == 2
    assert shapes.count((256, 1)) == 2


def test_hash_gates_route_by_the_hash_feature(tiny: Dataset) -> None:
    ranker = build(tiny, gate="hash", hash_feature="film")
    frame = tiny.split("test")
    experts = ranker.mixture.gates["watch"](ranker.encode(frame)["film"])
    chosen = to_numpy(experts).argmax(-1)
    assert pd.Series(chosen).groupby(frame["film"]).nunique().eq(1).all()
    assert ranker.mixture.gates["watch"].table.shape == (13,)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("gate", ["hash", "hash+"])
def test_an_id_has_the_same_expert_in_all_tasks_unless_told_otherwise(
    gate: str, tiny: Dataset
) -> None:
    users = tiny.split("train")[["user", "film", "age"]]
    for tables in ("shared", "own"):
        ranker = build(tiny, gate=gate, hash_tables=tables)
        ids = ranker.encode(users)["user"]
        watch, rating = (
            to_numpy(ranker.mixture.gates[task](ids)).argmax(-1)
            for task in ("watch", "rating")
        )
        same = watch == rating
        assert same.all() if tables == "shared" else same.mean() < 0.7


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_experts_choose_k_of_themselves_for_an_example_on_average(
    k: int, tiny: Dataset
) -> None:
    gates = build(tiny, gate="expert-choice", k=k).mixture.gates
    x = np.random.default_rng(0).normal(size=(48, 17)).astype("float32")
    for gate in gates.values():
        chosen = to_numpy(gate(x, training=True)) != 0
        assert chosen.sum(axis=0).tolist() == [48 * k / 4] * 4
        assert chosen.sum(axis=1).mean() == k


def test_unknown_and_missing_ids_are_one(tiny: Dataset) -> None:
    frame = tiny.split("test")[:3].assign(age=30.0, film="é1")
    frame["user"] = pd.Series([999, None, -5], dtype="Int64")
    predicted = predict(build(tiny), frame)["rating"]
    assert (predicted == predicted[0]).all()


def test_numbers_are_standardised_and_missing_ones_are_the_mean(
    tiny: Dataset,
) -> None:
    ranker = build(tiny)
    age = tiny.split("train")["age"]
    state = ranker.fitted["age"].get_state()
    assert state["mean"] == pytest.approx(age.mean())
    assert state["variance"] == pytest.approx(age.var(ddof=0))
    frame = tiny.split("test")[:3].assign(user=1, film="é1")
    frame["age"] = [age.mean(), np.nan, age.mean() + age.std(ddof=0)]
    inputs = ranker.encode(frame)
    features = to_numpy(ranker.mixture_inputs(inputs, training=False)[0])
    np.testing.assert_allclose(features[:, -9], [0, 0, 1], atol=1e-5)


def test_numbers_come_whole_in_mixed_precision(tiny: Dataset) -> None:
    """Not rounded to 8 bits before they are standardised."""
    schema = replace(tiny.schema, features={"age": "number"})
    rows = tiny.split("train").assign(age=1000.0 + np.arange(160) % 4)
    splits = dict.fromkeys(("train", "validation", "test"), rows)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        config = resolve_config(TrainConfig("synthetic", "run"), schema)
        ranker = build_ranker(config, Dataset(schema, splits))
        predicted = predict(ranker, rows[:4])["watch"]
    finally:
        keras.config.set_dtype_policy("float32")
    assert len(np.unique(predicted)) == 4


@pytest.mark.parametrize("embedding_dim", [4, None])
def test_saved_model_keeps_its_vocabularies(
    embedding_dim: int | None, tiny: Dataset, tmp_path: Path
) -> None:
    ranker = build(tiny, embedding_dim=embedding_dim)
    ranker.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    frame = tiny.split("test")
    expected = predict(ranker, frame)
    for task, values in predict(restored, frame).items():
        np.testing.assert_array_equal(values, expected[task])


def test_works_with_a_single_task_and_numbers_alone(tiny: Dataset) -> None:
    frame = tiny.split("train")
    schema = type(tiny.schema)("one", {"age": "number"}, {"watch": "binary"})
    one = Dataset(schema, dict.fromkeys(("train", "validation", "test"), frame))
    assert predict(build(one), frame[:5])["watch"].shape == (5, 1)
    with pytest.raises(ValueError, match="`gate` must not be 'hash'"):
        build(one, gate="hash")


@pytest.mark.traced_once("tensorflow")
def test_scores_are_the_predictions_and_the_experts(tiny: Dataset) -> None:
    ranker = build(tiny, gate="top-k", k=3)
    frame = tiny.split("test")
    scores = Scorer(ranker, batch_size=16).score(frame)
    for task, values in predict(ranker, frame).items():
        np.testing.assert_allclose(
            scores.predictions[task], values[:, 0], rtol=1e-5, atol=1e-6
        )
        assert scores.predictions[task].dtype == np.float64
        assert scores.experts[task].tolist() == [3] * 40
    features, _ = ranker.mixture_inputs(ranker.encode(frame), training=False)
    needed = []
    for task, gate in ranker.mixture.gates.items():
        selected = to_numpy(gate(features)) > 0
        (loads,) = scores.loads[task]  # Of three batches.
        assert loads.tolist() == selected.sum(axis=0).tolist()
        needed.append(selected)
        (use,) = scores.use[task]
        np.testing.assert_array_equal(
            use.sets, np.packbits(selected, axis=1, bitorder="little")
        )
    of_any_task = np.any(needed, axis=0).sum(axis=-1)
    assert 3 < of_any_task.mean() < 6
    assert scores.evaluated.tolist() == of_any_task.tolist()


@pytest.mark.traced_once("tensorflow")
def test_experts_that_run_are_not_counted_where_tasks_have_their_own(
    tiny: Dataset,
) -> None:
    frame = tiny.split("test")
    cgc = build(tiny, architecture="cgc", gate="softmax", task_experts=2)
    assert Scorer(cgc).score(frame).evaluated is None
    moe = build(tiny, architecture="moe", gate="top-k", k=3)
    assert Scorer(moe).score(frame).evaluated.tolist() == [3] * 40


@pytest.mark.traced_once("tensorflow")
def test_stem_has_embeddings_of_each_task_beside_shared_ones(
    tiny: Dataset,
) -> None:
    stem = build(tiny, architecture="stem", gate="softmax", embedding_dim=4)
    assert stem.streams == ["watch", "rating", "shared"]
    table = stem.embeddings["user"].embeddings
    assert table.shape[1] == 3 * 4
    assert stem.table_widths["user"] == 4
    inputs = stem.encode(tiny.split("train")[:8])

    def loss() -> Any:
        outputs = stem(inputs)
        unused = 0.0 * ops.sum(outputs["rating"])
        return ops.sum(ops.square(outputs["watch"])) + unused

    (gradient,) = weight_gradient(loss, [table])
    of_streams = np.split(gradient, 3, axis=1)
    assert [values.any() for values in of_streams] == [True, False, True]


def test_scores_of_no_rows(tiny: Dataset) -> None:
    scores = Scorer(build(tiny)).score(tiny.split("test")[:0])
    assert scores.predictions["watch"].shape == (0,)
