from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import break_even
from keras_moe.layers import execution
from keras_moe.layers.break_even import sparse_pays
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced

WIDE = {"row_values": 512, "row_cost": 256 * 256}
NARROW = {"row_values": 64, "row_cost": 32 * 32}


@pytest.mark.parametrize(
    ("rows", "n", "k", "shape", "pays"),
    [
        # As measured on all three backends, see benchmarks/README.md.
        (4096, 16, 2, WIDE, True),
        (4096, 4, 2, WIDE, True),
        (1, 64, 2, WIDE, True),
        (4096, 16, 2, NARROW, True),
        (4096, 4, 2, NARROW, False),
        (None, 16, 2, WIDE, True),
        (None, 4, 2, NARROW, False),
        # Nothing to save.
        (4096, 4, 4, WIDE, False),
    ],
)
def test_the_estimate_is_what_was_measured(
    rows: int | None, n: int, k: int, shape: dict[str, int], pays: bool
) -> None:
    estimate = sparse_pays(rows, num_experts=n, experts_per_row=k, **shape)
    assert estimate is pays


def test_small_batches_pay_only_where_planning_costs_nothing() -> None:
    backend = keras.backend.backend()
    pays = sparse_pays(64, num_experts=4, experts_per_row=2, **WIDE)
    assert pays is (break_even.PLAN[backend] == 0)


def test_of_unknown_experts_only_their_share_counts() -> None:
    most = break_even.LARGEST_SHARE[keras.backend.backend()] * 10
    assert sparse_pays(8, 4, 10, most, None)
    assert not sparse_pays(8, 4, 10, most + 0.1, None)


class NotingExperts(MLPExperts):
    """Notes how it is called."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ran_sparse: list[bool] = []

    def call(
        self,
        inputs: Any,
        group_sizes: Any = None,
        training: bool | None = None,
    ) -> Any:
        self.ran_sparse.append(group_sizes is not None)
        return super().call(inputs, group_sizes, training)


@pytest.mark.parametrize("pays", [True, False])
def test_auto_runs_what_pays(
    pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def estimate(*arguments: object) -> bool:
        asked.append(arguments)
        return pays

    monkeypatch.setattr(execution, "sparse_pays", estimate)
    experts = NotingExperts(8, [5, 3])
    mixture = MoE(GivenGate(8, k=2, bounded=True), experts)
    mixture(np.ones((6, 4), "float32"), gate_inputs=balanced(6, 8, 2))
    assert experts.ran_sparse == [pays]
    # Rows; inputs and outputs; experts; k; multiply-adds of two layers.
    assert asked == [(6, 4 + 3, 8, 2, 4 * 5 + 5 * 3)]


@pytest.mark.parametrize(
    ("rows", "n", "width", "sparse"),
    [(512, 16, 128, True), (512, 4, 8, False)],
)
def test_auto_decides_by_the_shapes_alone(
    rows: int, n: int, width: int, sparse: bool
) -> None:
    experts = NotingExperts(n, width)
    mixture = MoE(GivenGate(n, k=2, bounded=True), experts)
    x = np.ones((rows, width), "float32")
    mixture(x, gate_inputs=balanced(rows, n, 2))
    assert experts.ran_sparse == [sparse]
