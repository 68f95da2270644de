"""What is computed of the rows of all processes."""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import TopKGate
from recsys.distribution.process_group import all_rows
from recsys.distribution.process_group import num_shares
from recsys.distribution.process_group import own_rows
from recsys.distribution.process_group import shared_with
from recsys.retrieval.losses import create_loss
from recsys.retrieval.negatives import Items
from recsys.retrieval.negatives import Negatives
from recsys.retrieval.retrieval import Retrieval

pytestmark = pytest.mark.once("torch")


class Group:
    """The second of two processes; the other one's rows are 1 more."""

    index = 1
    count = 2

    def all_rows(self, rows: Any) -> Any:
        return ops.concatenate([rows + 1, rows])

    def sum(self, values: Any) -> Any:
        # Of loads: the other one's four rows are all for the last expert.
        return values + ops.convert_to_tensor([0, 0, 0, 4])

    def mean_gradients(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        by_rows: Sequence[bool],
    ) -> list[Any]:
        return ["mean" for _ in gradients]


@pytest.fixture
def together() -> Iterator[None]:
    group: Any = Group()
    with shared_with(group):
        yield


def test_each_has_its_rows(together: None) -> None:
    batch = ({"a": np.arange(6)}, {"b": np.ones((6, 2))})
    own = own_rows(batch)
    assert own[0]["a"].tolist() == [3, 4, 5]
    assert own[1]["b"].shape == (3, 2)
    assert num_shares() == 2


def test_rows_of_all(together: None) -> None:
    rows, none = all_rows((ops.ones((3, 2)), None))
    assert ops.convert_to_numpy(rows)[:, 0].tolist() == [2, 2, 2, 1, 1, 1]
    assert none is None


def test_alone_there_is_nothing_to_gather() -> None:
    rows = np.arange(3)
    assert all_rows(rows) is rows
    assert own_rows(rows) is rows
    assert num_shares() == 1


def test_a_gate_is_balanced_by_the_loads_of_all(together: None) -> None:
    gate = TopKGate(4, k=1, balance="bias", balance_rate=0.5, use_bias=False)
    gate.build((None, 4))
    gate.kernel.assign(np.eye(4))
    gate(np.eye(4)[[0, 0, 1, 2]], training=True)  # Loads of 2, 1, 1 and 0.
    np.testing.assert_array_equal(
        ops.convert_to_numpy(gate.selection_bias), [0.0, 0.5, 0.5, -0.5]
    )


def test_items_of_other_processes_are_told_apart() -> None:
    retrieval = Retrieval("item", [], 9, {}, dim=2, units=[4])
    retrieval.build((None, 3), (None, 3))
    retrieval.sampling.assign(np.full(10, 0.1, "float32"))
    rng = np.random.default_rng(0)
    queries, items = rng.normal(size=(2, 4, 3)).astype("float32")
    numbers, weights = np.array([1, 2, 3, 4]), np.ones(4, "float32")
    group: Any = Group()
    with shared_with(group):
        loss = retrieval(queries, items, numbers, weights)
        towers = retrieval.query_tower(queries), retrieval.item_tower(items)
        rows = all_rows((*towers, ops.convert_to_tensor(numbers)))
    queries, items, numbers = rows
    candidates = Negatives(9, 0).candidates(
        queries, Items(items, numbers, ops.full((8,), -np.log(0.1))), None
    )
    losses = create_loss("softmax", {}).losses(candidates, 9)
    expected = ops.average(losses, weights=group.all_rows(ops.ones(4)))
    np.testing.assert_allclose(
        ops.convert_to_numpy(loss), ops.convert_to_numpy(expected), rtol=1e-5
    )


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="gradients of PyTorch"
)
def test_gradients_of_tasks_are_those_of_all(together: None) -> None:
    from recsys.weighting.torch_gradients import gradients

    variable = keras.Variable([1.0, 2.0])
    parts = ops.stack([ops.sum(variable.value), ops.sum(variable.value**2)])
    assert gradients(None, parts, ops.ones(2), [variable]) == ["mean"]
