"""Training rows that are trained as rows of an unknown id."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

import recsys
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.models.build import build_ranker
from recsys.models.ranker import Ranker
from recsys.models.target_statistics import ROW_STATISTICS
from recsys.models.target_statistics import TargetStatistics
from recsys.models.two_tower import TwoTower
from recsys.models.unknown_ids import UnknownIds
from recsys.models.unknown_rates import unknown_rates
from recsys.training.fit import fit
from recsys.training.resolve_config import resolve_config
from tests.examples import examples
from tests.recsys.models.id_kinds import ID_OF

SCHEMA = Schema("shop", {"user": "id", "item": "id"}, {"like": "binary"})

in_both_kinds = pytest.mark.parametrize("kind", ID_OF)


def frame_of(kind: str, users: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": [ID_OF[kind](user) for user in users],
            "item": [n % 3 for n in range(len(users))],
            "like": [float(n % 2) for n in range(len(users))],
        }
    )


def dataset_of(kind: str, train: list[int], validation: list[int]) -> Dataset:
    rows = frame_of(kind, validation)
    splits = {"train": frame_of(kind, train), "validation": rows, "test": rows}
    return Dataset(SCHEMA, splits)


def rates_of(dataset: Dataset, **fields: Any) -> dict[str, float]:
    sizes = {"head_units": [4], "expert_units": [4]}
    fields = {"target_statistics": True, **sizes, **fields}
    config = resolve_config(TrainConfig("shop", "run", **fields), SCHEMA)
    return unknown_rates(config, build_ranker(config, dataset), dataset)


KNOWN = [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.once("torch")
@in_both_kinds
@pytest.mark.parametrize(
    ("train", "validation", "rate"),
    [
        (KNOWN, [1, 2, 3, 4], 0.0),
        (KNOWN, [1, 2, 3, 9], 0.25),
        (KNOWN, [1, 7, 8, 9], 0.5),  # Of 0.75, no more.
        # The only row of an id has no statistics of others: 1 in 9.
        ([*KNOWN, 5], [1, 2, 8, 9], (1 / 2 - 1 / 9) / (1 - 1 / 9)),
        ([1, 2, 3, 4], [1, 2, 3, 9], 0.0),
    ],
)
def test_ids_are_as_often_unknown_as_in_the_validation_split(
    train: list[int], validation: list[int], rate: float, kind: str
) -> None:
    dataset = dataset_of(kind, train, validation)
    assert rates_of(dataset) == pytest.approx({"user": rate, "item": 0})


@pytest.mark.once("torch")
def test_no_row_is_where_none_is_to_be() -> None:
    dataset = dataset_of("text", KNOWN, [1, 2, 8, 9])
    assert rates_of(dataset, unknown_rate=0.0) == {}
    assert rates_of(dataset, preset="movielens") == {}
    # The embedding replaces as many by itself.
    assert rates_of(dataset, unknown_rate=0.5) == {"user": 0, "item": 0}
    assert rates_of(dataset, target_statistics=False)["user"] == 0.5


@examples(100)
@given(
    rates=st.tuples(*[st.sampled_from([0.0, 0.3, 1.0])] * 2),
    rows=st.integers(1, 20),
)
def test_a_row_of_an_unknown_id_is_seen_as_one(
    rates: tuple[float, float], rows: int
) -> None:
    statistics = TargetStatistics({"user": 3, "item": 2}, 2, 1, factors=2)
    statistics.build()
    statistics.fill(
        {
            "user": np.array([[0.5, 3, 0, 0], [7, 8, 1, 2], [9, 10, 3, 4]]),
            "item": np.array([[-0.5, 4, 0, 0], [11, 12, 5, 6]]),
        }
    )
    unknown_ids = UnknownIds()
    unknown_ids.rates = dict(zip(("user", "item"), rates, strict=True))
    generator = np.random.default_rng(rows)
    users, items = generator.integers(1, [[3], [2]], (2, rows), np.int32)
    inputs = {"user": users, "item": items, "age": np.ones(rows)}
    held = ops.convert_to_numpy(statistics(inputs))
    # Those of a training row are from other rows, and not as in the tables.
    replaced, are_unknown = unknown_ids.replace(
        {**inputs, ROW_STATISTICS: held + 100}, training=True
    )
    seen = {
        name: ops.convert_to_numpy(values)
        for name, values in statistics.of_unknown(replaced, are_unknown).items()
    }
    own = seen.pop(ROW_STATISTICS)
    is_unknown = np.stack([seen["user"] == 0, seen["item"] == 0], axis=1)
    served = ops.convert_to_numpy(statistics(seen))
    expected = np.where(
        np.repeat(is_unknown, 2, axis=1), served[:, :4], held[:, :4] + 100
    )
    np.testing.assert_allclose(own[:, :4], expected)
    products = np.where(is_unknown.any(axis=1), 0, held[:, 4] + 100)
    np.testing.assert_allclose(own[:, 4], products)
    np.testing.assert_array_equal(seen["age"], inputs["age"])
    for name, rate, flags in zip(
        ("user", "item"), rates, is_unknown.T, strict=True
    ):
        np.testing.assert_array_equal(seen[name][~flags], inputs[name][~flags])
        assert rate == 0.3 or (flags == rate).all()


def test_so_many_ids_are_replaced_as_is_said() -> None:
    rows = 20_000
    inputs = {"user": np.ones(rows, "int32"), "item": np.ones(rows, "int32")}
    unknown_ids = UnknownIds()
    unknown_ids.rates = {"user": 0.3, "item": 0.1}

    def shares(**arguments: Any) -> list[float]:
        seen, _ = unknown_ids.replace(inputs, **arguments)
        return [
            float((ops.convert_to_numpy(seen[name]) == 0).mean())
            for name in inputs
        ]

    np.testing.assert_allclose(shares(training=True), [0.3, 0.1], atol=0.02)
    assert shares(training=False) == [0, 0]


@pytest.mark.once("torch")
@in_both_kinds
@pytest.mark.parametrize("streaming", [False, True])
def test_a_refit_has_the_rates_of_its_training(
    kind: str,
    streaming: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = [*range(1, 41)] * 2
    dataset = dataset_of(kind, users, [1, 2, 3, *range(50, 57)])
    dataset.write(tmp_path / "data")
    rates = []

    def recorded(model: Ranker, *args: Any) -> None:
        rates.append(model.unknown_ids.rates)
        fit(model, *args)

    said: list[str] = []
    module = "recsys.training.train_model"
    monkeypatch.setattr(f"{module}.fit", recorded)
    monkeypatch.setattr(f"{module}.announce", said.append)
    recsys.train(
        {
            "data": str(tmp_path / "data"),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "refit": True,
            "streaming": streaming,
            "target_statistics": True,
            "expert_units": [4],
            "head_units": [4],
        }
    )
    assert rates == [{"user": 0.5, "item": 0.0}] * 2
    of_users = [line for line in said if "an unknown user" in line]
    assert len(of_users) == 1
    assert of_users[0].startswith("50% of the training rows")


@in_both_kinds
@pytest.mark.once("torch")
def test_what_towers_are_to_find_is_known(kind: str) -> None:
    """Where they are trained in one with the tasks."""
    dataset = dataset_of(kind, KNOWN, [1, 2, 8, 9])
    schema = replace(SCHEMA, item="item", user="user")
    dataset = replace(dataset, schema=schema)
    rows = dataset.split("validation").assign(item=[7, 8, 0, 1])
    splits = {**dataset.splits, "validation": rows}
    dataset = replace(dataset, splits=splits)
    given = {"retrieval": True, "expert_units": [4], "head_units": [4]}

    def rates(**fields: Any) -> dict[str, float]:
        config = TrainConfig("shop", "run", **given, **fields)
        resolved = resolve_config(config, schema)
        model = build_ranker(resolved, dataset)
        assert isinstance(model, TwoTower)
        return unknown_rates(resolved, model, dataset)

    assert rates(select="retrieval") == {"user": 0.5}
    assert rates(select="parts") == {"user": 0.5, "item": 0.5}
    assert rates(select="parts", ranker=False) == {}
