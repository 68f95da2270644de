"""Intercepts of ids that training rows do not show."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

import recsys
from recsys.columns.kind import declared
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.models.build import build_ranker
from recsys.models.random_intercepts import RandomIntercepts
from recsys.models.ranker import Ranker
from recsys.tasks import TASKS
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config
from tests.examples import examples
from tests.recsys.api.interruptions import train_and_copy
from tests.recsys.models.id_kinds import ID_OF

TASKS_OF = {"like": "binary", "rating": "regression", "kind": "multiclass"}
SIZES: dict[str, Any] = {"expert_units": [4], "head_units": [4]}


def frame_of(kind: str, users: list[int]) -> pd.DataFrame:
    places = np.arange(len(users))
    return pd.DataFrame(
        {
            "user": [ID_OF[kind](user) for user in users],
            "item": places % 3,
            "like": (places % 2).astype(float),
            "rating": 100.0 * places,
            "kind": (places % 3).astype(float),
        }
    )


def dataset_of(kind: str) -> Dataset:
    schema = Schema("shop", {"user": "id", "item": "id"}, dict(TASKS_OF))
    new = frame_of(kind, [7, 8, 9, 7, 8, 9])
    train = frame_of(kind, [1, 2, 3, 1, 2, 3])
    return Dataset(schema, {"train": train, "validation": new, "test": new})


def ranker_of(dataset: Dataset, **fields: Any) -> Ranker:
    config = TrainConfig("shop", "run", **SIZES, **fields)
    return build_ranker(resolve_config(config, dataset.schema), dataset)


def test_they_are_the_products_of_replaced_rows() -> None:
    @examples(50)
    @given(
        rows=st.integers(1, 5),
        rates=st.fixed_dictionaries(
            {"user": st.booleans(), "item": st.booleans()}
        ),
        seed=st.integers(0, 99),
    )
    def check(rows: int, rates: dict[str, bool], seed: int) -> None:
        generator = np.random.default_rng(seed)
        layer = RandomIntercepts({"user": 3, "item": 2}, {"a": 1, "b": 2})
        layer.build()
        names = [name for name in ("user", "item") if rates[name]]
        vectors, flags, expected = {}, {}, np.zeros((rows, 3))
        for name in names:
            width = layer.widths[name]
            kernel = generator.normal(size=(width, 3)).astype("float32")
            layer.kernels[name].assign(kernel)
            vectors[name] = generator.normal(size=(rows, width)).astype("f4")
            flags[name] = generator.random(rows) < 0.5
            added = 100 * vectors[name] @ kernel
            expected += np.where(flags[name][:, None], added, 0)
        by_task = layer(vectors, flags)
        if not names:
            assert by_task == {}
            return
        found = [ops.convert_to_numpy(by_task[task]) for task in ("a", "b")]
        assert [part.shape for part in found] == [(rows, 1), (rows, 2)]
        np.testing.assert_allclose(
            np.concatenate(found, axis=1), expected, rtol=1e-4, atol=1e-4
        )

    check()


@pytest.mark.parametrize("kind", TASKS)
def test_a_shifted_output_is_that_of_shifted_sums(kind: str) -> None:
    task = declared(kind, TASKS, "`tasks`", "task")
    generator = np.random.default_rng(0)
    sums, by = generator.normal(scale=3, size=(2, 20, 3)).astype("float32")
    activation = keras.activations.get(task.activation)
    sums, by = map(ops.convert_to_tensor, (sums, by))
    shifted = task.shifted(activation(sums), by)
    np.testing.assert_allclose(
        ops.convert_to_numpy(shifted),
        ops.convert_to_numpy(activation(sums + by)),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("kind", ID_OF)
@pytest.mark.parametrize("architecture", ["mmoe", "stem"])
def test_only_training_rows_of_a_replaced_id_have_them(
    kind: str, architecture: str
) -> None:
    dataset = dataset_of(kind)
    ranker = ranker_of(dataset, architecture=architecture, expert_dropout=0.0)
    inputs = ranker.encode(dataset.split("train"))

    def predicted(training: bool) -> dict[str, np.ndarray]:
        # The same ids are replaced again, and no others.
        ranker.unknown_ids.seed_generator.state.assign([0, 0])
        outputs = ranker(inputs, training=training)
        return {t: ops.convert_to_numpy(v) for t, v in outputs.items()}

    def differ(before: dict[str, np.ndarray], after: dict[str, Any]) -> Any:
        unlike = [
            ~np.isclose(before[task], after[task], rtol=1e-4).all(axis=1)
            for task in TASKS_OF
        ]
        return np.array(unlike)

    for embedding in ranker.embeddings.values():
        embedding.unknown_rate = 0.0
    ranker.set_unknown_rates({"user": 0.5})
    before, served = predicted(training=True), predicted(training=False)
    assert ranker.random_intercepts is not None
    kernel = ranker.random_intercepts.kernels["user"]
    generator = np.random.default_rng(0)
    kernel.assign(generator.normal(size=kernel.shape))
    ranker.unknown_ids.seed_generator.state.assign([0, 0])
    _, are_unknown = ranker.unknown_ids.replace(inputs, training=True)
    is_replaced = ops.convert_to_numpy(are_unknown["user"])
    assert 0 < is_replaced.sum() < len(is_replaced)
    unlike = differ(before, predicted(training=True))
    np.testing.assert_array_equal(unlike, [is_replaced] * 3)
    assert not differ(served, predicted(training=False)).any()


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("kind", ID_OF)
@pytest.mark.parametrize(
    "fields", [{}, {"table_optimizer": "lazy-adam", "min_table_rows": 1}]
)
def test_an_id_that_no_row_shows_is_trained(
    kind: str, fields: dict[str, Any]
) -> None:
    """Of tables that are trained by rows, too."""
    dataset = dataset_of(kind)
    config = resolve_config(
        TrainConfig("shop", "run", **SIZES, **fields), dataset.schema
    )
    ranker = build_ranker(config, dataset)
    ranker.set_unknown_rates({"user": 1.0})
    compile_model(ranker, config)
    table = ranker.embeddings["user"]
    rows = np.arange(4, dtype="int32")
    first = ops.convert_to_numpy(table(rows))
    train = dataset.split("train")
    labels = {t: train[t].to_numpy("float32")[:, None] for t in TASKS_OF}
    ranker.fit(ranker.encode(train), labels, epochs=3, verbose=0)
    assert ranker.random_intercepts is not None
    kernels = ranker.random_intercepts.kernels
    assert np.any(ops.convert_to_numpy(kernels["user"]) != 0)
    assert not kernels["item"].trainable
    moved = ops.convert_to_numpy(table(rows)) != first
    assert moved.any(axis=1).all()


@pytest.mark.once("torch")
def test_who_has_some() -> None:
    dataset = dataset_of("text")
    assert ranker_of(dataset).random_intercepts is not None
    for fields in ({"unknown_rate": 0.0}, {"preset": "movielens"}):
        assert ranker_of(dataset, **fields).random_intercepts is None
    ranker = ranker_of(dataset)
    assert ranker.random_intercepts is not None
    trained = [
        kernel.trainable for kernel in ranker.random_intercepts.kernels.values()
    ]
    assert trained == [False, False]
    again = Ranker.from_config(ranker.get_config())
    assert [v.shape for v in again.weights] == [v.shape for v in ranker.weights]


def crowd_of(kind: str, users: range, generator: Any) -> pd.DataFrame:
    """Rows of users with tastes of their own, who tell them by their street."""
    numbers = np.repeat(np.arange(len(users)), 20)
    tastes = generator.normal(size=len(users))[numbers]
    items = generator.integers(0, 30, len(numbers))
    worth = np.linspace(-1, 1, 30)[items]
    noise = generator.normal(size=len(numbers))
    return pd.DataFrame(
        {
            "user": [ID_OF[kind](users[number]) for number in numbers],
            "item": items,
            "street": numbers % 60,
            "rating": worth + tastes + 0.3 * noise,
        }
    )


@pytest.fixture(params=ID_OF)
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The fields of a training on users who are all new in validation."""
    kind, generator = request.param, np.random.default_rng(0)
    features = {"user": "id", "item": "id", "street": "id"}
    schema = Schema(
        "crowd", features, {"rating": "regression"}, item="item", user="user"
    )
    splits = {
        "train": crowd_of(kind, range(60), generator),
        "validation": crowd_of(kind, range(60, 120), generator),
        "test": crowd_of(kind, range(120, 180), generator),
    }
    Dataset(schema, splits).write(tmp_path / "data")
    return {
        **{"data": str(tmp_path / "data"), "out": str(tmp_path / "run")},
        **{"epochs": 8, "patience": 8, "batch_size": 64, "seed": 0},
        **{"learning_rate": 0.01, "architecture": "shared-bottom"},
        **SIZES,
    }


def kernel_of(run: Path) -> np.ndarray:
    intercepts = recsys.load_ranker(run).random_intercepts
    assert intercepts is not None
    return ops.convert_to_numpy(intercepts.kernels["user"])


@pytest.mark.once("torch")
def test_users_are_not_learned_by_their_street(
    crowd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_them = recsys.train(crowd)["test"]["loss"]
    monkeypatch.setattr(
        "recsys.models.build.may_have_unknown", lambda config: False
    )
    without = recsys.train({**crowd, "out": crowd["out"] + "-without"})
    assert with_them < 0.9 * without["test"]["loss"]


@pytest.mark.once("torch")
def test_a_resumed_training_has_those_of_an_uninterrupted_one(
    crowd: dict[str, Any], tmp_path: Path
) -> None:
    whole = {**crowd, "epochs": 3}
    metrics = train_and_copy(whole, {(2, 3): tmp_path / "parts"})
    again = recsys.train({**whole, "out": str(tmp_path / "parts")}, resume=True)
    assert again["test"]["loss"] == metrics["test"]["loss"]
    kernel = kernel_of(tmp_path / "run")
    np.testing.assert_array_equal(kernel_of(tmp_path / "parts"), kernel)
    assert kernel.any()


@pytest.mark.once("torch")
def test_a_warm_start_goes_on_with_them(
    crowd: dict[str, Any], tmp_path: Path
) -> None:
    recsys.train({**crowd, "epochs": 2})
    start = {"epochs": 1, "warm_start": crowd["out"], "learning_rate": 1e-7}
    recsys.train({**crowd, **start, "out": str(tmp_path / "next")})
    before, after = (kernel_of(tmp_path / name) for name in ("run", "next"))
    assert before.any()
    assert np.any(after != before)
    np.testing.assert_allclose(after, before, atol=1e-4)
