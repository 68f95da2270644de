import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data.datasets.planted_tasks import PlantedTasks
from recsys.data.datasets.planted_tasks import planted_tasks


@pytest.fixture(scope="module")
def planted() -> PlantedTasks:
    return planted_tasks(num_tasks=64, num_rows=700)


def test_shapes(planted: PlantedTasks) -> None:
    assert planted.inputs.shape == (700, 10)
    assert planted.labels.shape == (700, 64)
    assert planted.kernels.shape == (16, 10, 4)
    assert planted.weights.shape == (64, 16)
    assert planted.labels.dtype == np.float32


def test_groups_of_sixteen_tasks_have_four_experts_of_their_own(
    planted: PlantedTasks,
) -> None:
    assert planted.groups.tolist() == [t // 16 for t in range(64)]
    own = planted.groups[:, None] == np.arange(16) // 4
    assert (planted.weights[own] > 0).all()
    assert (planted.weights[~own] == 0).all()
    np.testing.assert_allclose(planted.weights.sum(axis=1), 1, rtol=1e-6)


def test_a_label_is_the_planted_mixture_of_the_planted_experts(
    planted: PlantedTasks,
) -> None:
    row, task = 5, 37  # Of the third group: experts 8 to 11.
    expected = 0.0
    for expert in range(8, 12):
        output = sum(
            max(0.0, float(planted.inputs[row] @ planted.kernels[expert, :, u]))
            for u in range(4)
        )
        expected += float(planted.weights[task, expert]) * output
    assert planted.labels[row, task] == pytest.approx(expected, rel=1e-5)


def correlation_of_tasks(correlation: float) -> float:
    """Mean correlation, over 100 groups, of the logits of two tasks.

    A softmax keeps the differences of the logits of two experts, which have
    the correlation of the logits and twice their variance.
    """
    planted = planted_tasks(1600, 7, 1, correlation)
    weights = planted.weights.reshape(100, 16, 100, 4)
    own = np.log(np.stack([weights[g, :, g] for g in range(100)]))
    differences = own[..., [0, 2]] - own[..., [1, 3]]
    by_task = differences.transpose(1, 0, 2).reshape(16, -1)
    assert by_task.var() == pytest.approx(2, rel=0.25)
    pairs = np.corrcoef(by_task)[np.triu_indices(16, 1)]
    return float(pairs.mean())


@pytest.mark.parametrize("correlation", [0.0, 0.8, 1.0])
def test_task_weights_are_correlated_within_a_group(correlation: float) -> None:
    assert correlation_of_tasks(correlation) == pytest.approx(
        correlation, abs=0.05
    )


def test_tasks_of_one_group_are_more_alike_than_those_of_two(
    planted: PlantedTasks,
) -> None:
    related = planted.groups[:, None] == planted.groups
    correlations = np.corrcoef(planted.labels.T)
    between = correlations[~related]
    within = correlations[related & ~np.eye(64, dtype=bool)]
    assert within.mean() > 0.8 > between.mean()


def test_drawn_numbers_are_standard_normal() -> None:
    planted = planted_tasks(num_tasks=512, num_rows=2_000)
    for values in (planted.inputs, planted.kernels):
        assert values.mean() == pytest.approx(0, abs=0.05)
        assert values.std() == pytest.approx(1, abs=0.05)


def test_fewer_tasks_are_the_first_of_more(planted: PlantedTasks) -> None:
    fewer = planted_tasks(num_tasks=32, num_rows=700)
    np.testing.assert_array_equal(fewer.inputs, planted.inputs)
    np.testing.assert_array_equal(fewer.labels, planted.labels[:, :32])
    np.testing.assert_array_equal(fewer.weights, planted.weights[:32, :8])


def test_the_seed_decides() -> None:
    first, again, other = (
        planted_tasks(num_tasks=16, num_rows=7, seed=seed) for seed in (1, 1, 2)
    )
    for field in dataclasses.fields(PlantedTasks):
        values = getattr(first, field.name)
        np.testing.assert_array_equal(values, getattr(again, field.name))
        if field.name != "groups":
            assert not np.array_equal(values, getattr(other, field.name))


def test_splits_have_the_published_sizes_and_share_no_row() -> None:
    planted = planted_tasks(num_tasks=16, num_rows=140_000)
    parts = [planted.split(name) for name in ("train", "validation", "test")]
    sizes = [len(labels) for _, labels in parts]
    assert sizes == [100_000, 20_000, 20_000]
    inputs = np.concatenate([inputs for inputs, _ in parts])
    np.testing.assert_array_equal(inputs, planted.inputs)


def test_unknown_split(planted: PlantedTasks) -> None:
    with pytest.raises(DataError, match=r"one of the splits.*'dev'"):
        planted.split("dev")


def test_data_folder(tmp_path: Path) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=70, num_features=3)
    planted.to_dataset().write(tmp_path / "planted")
    read = Dataset.read(tmp_path / "planted")
    assert declarations(read.schema.features) == dict.fromkeys(
        ("x0", "x1", "x2"), "number"
    )
    assert declarations(read.schema.tasks) == {
        f"task{t}": "regression" for t in range(16)
    }
    inputs, labels = planted.split("test")
    frame = read.split("test").to_numpy()
    np.testing.assert_array_equal(frame, np.hstack([inputs, labels]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tasks": 24}, r"multiple of 16. Received: num_tasks=24"),
        ({"num_tasks": 0}, r"`num_tasks` must be a multiple of 16"),
        ({"num_rows": 6}, r"`num_rows` must be at least 7.*num_rows=6"),
        ({"num_features": 0}, r"`num_features` must be at least 1"),
        ({"correlation": 1.1}, r"`correlation` must be.*correlation=1.1"),
        ({"correlation": float("nan")}, r"`correlation` must be between"),
        ({"seed": -1}, r"`seed` must not be negative. Received: seed=-1"),
    ],
)
def test_arguments_outside_their_bounds(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        planted_tasks(**arguments)
