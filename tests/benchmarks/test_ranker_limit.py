from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import MLPExperts

pytestmark = pytest.mark.once("torch")

Load = Callable[[str], ModuleType]


def test_every_row_goes_through_as_many_experts(load_script: Load) -> None:
    """3 rows, 2 experts, 4 pairs: rows 0 and 1, then rows 2 and 0."""
    experts = MLPExperts(2, 1, activation=None, kernel_initializer="ones")
    experts.build((None, 1))
    experts.kernels[0].assign([[[1.0]], [[10.0]]])
    groups = load_script("ranker_limit").EqualGroups(
        experts, ["watch", "rating"], k=1, num_rows=3, num_pairs=4
    )
    outputs = groups(np.array([[1.0], [2.0], [3.0]], "float32"))
    slots = {name: ops.convert_to_numpy(y)[:, 0] for name, y in outputs.items()}
    # The slots are 1, 2, 30 and 10: the second task gets 10, and 1 and 2 again.
    assert slots["watch"].tolist() == [1, 2, 30]
    assert slots["rating"].tolist() == [10, 1, 2]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("copies", [1, 2])
def test_each_task_adds_up_k_outputs(
    load_script: Load, copies: int, one_by_one: bool
) -> None:
    experts = MLPExperts(2, 1, activation=None, kernel_initializer="ones")
    experts.build((None, 1))
    groups = load_script("ranker_limit").EqualGroups(
        experts, ["watch"], 2, 2, num_pairs=2 * copies, one_by_one=one_by_one
    )
    (outputs,) = groups(np.array([[1.0], [2.0]], "float32")).values()
    assert ops.convert_to_numpy(outputs).tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_equal_groups_drop_out_in_training(
    load_script: Load, one_by_one: bool
) -> None:
    experts = MLPExperts(2, 4, dropout=0.5, kernel_initializer="ones", seed=0)
    experts.build((None, 1))
    run = load_script("equal_groups").run_equal_groups
    groups = np.ones((2, 64, 1), "float32")
    outputs = ops.convert_to_numpy(run(experts, groups, True, one_by_one))
    assert set(outputs.ravel().tolist()) == {0.0, 2.0}
    outputs = ops.convert_to_numpy(run(experts, groups, False, one_by_one))
    assert outputs.shape == (2, 64, 4)
    assert (outputs == 1).all()


def test_adam_in_one_pass_is_that_of_keras(
    load_script: Load, rng: np.random.Generator
) -> None:
    data = rng.normal(size=(8, 3)).astype("float32")
    labels = rng.normal(size=(8, 1)).astype("float32")

    def trained(optimizer: keras.optimizers.Optimizer) -> list[Any]:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(data, labels, batch_size=4, epochs=3, verbose=0)
        return list(model.get_weights())

    limit = load_script("one_pass_adam").OnePassAdam(0.1)
    for mine, theirs in zip(
        trained(limit), trained(keras.optimizers.Adam(0.1)), strict=True
    ):
        # PyTorch's kernel adds epsilon to a root that is unbiased already.
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


def test_the_limit_has_the_pairs_of_the_gates(load_script: Load) -> None:
    rankers = load_script("movielens_ranker")
    ranker = rankers.make_ranker(gate="top-k", num_experts=4, k=2)
    inputs, _ = rankers.make_rows(8)
    limit, pairs = load_script("ranker_limit").make_limit(ranker, inputs)
    # The same gate for both tasks chooses the same experts for both.
    first, second = ranker.mixture.gates.values()
    assert 8 * 2 <= pairs <= 8 * 4
    second.set_weights(first.get_weights())
    limit, pairs = load_script("ranker_limit").make_limit(ranker, inputs)
    assert pairs == 8 * 2
    assert limit.mixture.experts is ranker.mixture.experts
