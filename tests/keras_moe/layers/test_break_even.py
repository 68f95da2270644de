from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import break_even
from keras_moe.layers import execution
from keras_moe.layers.break_even import most_pairs_that_pay
from keras_moe.layers.break_even import smaller_experts
from keras_moe.layers.break_even import sparse_pays
from tests.examples import examples
from tests.gradients import gradient
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import skewed

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
    pays = sparse_pays(8, num_experts=4, experts_per_row=2, **WIDE)
    assert pays is (break_even.PLAN[backend] == 0)


def test_of_unknown_experts_only_their_share_counts() -> None:
    most = break_even.LARGEST_SHARE[keras.backend.backend()] * 10
    assert sparse_pays(8, 4, 10, most, None)
    assert not sparse_pays(8, 4, 10, most + 0.1, None)


@given(
    rows=st.integers(0, 5000),
    n=st.integers(2, 300),
    values=st.integers(2, 2000),
    cost=st.none() | st.integers(1, 10**6),
    share=st.floats(0, 1),
)
@examples(200)
def test_what_pays_for_a_shape_pays_for_a_batch_with_as_many_pairs(
    rows: int, n: int, values: int, cost: int | None, share: float
) -> None:
    experts = share * n
    most = most_pairs_that_pay(rows, values, n, cost, float(n))
    assert sparse_pays(rows, values, n, experts, cost) == (
        rows * experts <= most
    )
    unknown = most_pairs_that_pay(
        ops.convert_to_tensor(rows, "float32"), values, n, cost, float(n)
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(unknown), most, rtol=1e-4, atol=1e-2
    )


def test_sparse_execution_takes_no_more_memory_than_dense() -> None:
    # Layers of 64 and 32, inputs of 32: (32 + 96) m = 96 n.
    experts = MLPExperts(8, [64, 32])
    experts.build((None, 32))
    kept = experts._values_of_layers((None, 32))
    assert smaller_experts(32, kept, 8) == 6
    assert most_pairs_that_pay(10**6, 64, 8, 10**9, 6.0) == 6 * 10**6
    layers = LayerExperts([keras.layers.Dense(5) for _ in range(8)])
    layers.build((None, 15))
    assert smaller_experts(15, layers._values_of_layers((None, 15)), 8) == 2


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="of JAX's kernel on GPUs"
)
def test_on_gpus_jax_runs_dense_below_hundreds_of_experts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    least = 2 * break_even.RAGGED_ON_GPU
    for n, pays in ((16, False), (least, False), (2 * least, True)):
        assert sparse_pays(65_536, 2048, n, 2, 1024 * 1024) is pays
    assert not sparse_pays(65_536, 2048, 16, 2, None)


class Noting(Experts):
    """Notes how it is called, a base class before that of the experts."""

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


class NotingExperts(Noting, MLPExperts):
    pass


class NotingList(Noting, LayerExperts):
    pass


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


# Whether a plan costs more than what dense execution has to do as well.
PLANS_COST = keras.backend.backend() != "tensorflow"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rows", "n", "width", "num_tasks", "sparse"),
    [
        (512, 16, 128, 1, True),
        (512, 4, 8, 1, False),
        # What planning costs, few rows of narrow experts do not pay back.
        (8, 16, 32, 1, not PLANS_COST),
        # Two tasks: up to four experts a row.
        (512, 16, 128, 2, True),
        (512, 5, 8, 2, False),
        (512, 4, 128, 2, False),
    ],
)
def test_auto_as_shipped_is_equal_and_goes_the_way_that_pays(
    rows: int,
    n: int,
    width: int,
    num_tasks: int,
    sparse: bool,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(rows, width)).astype("float32")
    patterns = [balanced, skewed][:num_tasks]
    weights = [pattern(rows, n, 2) for pattern in patterns]
    auto, dense = (
        NotingExperts(n, width, bias_initializer="ones", seed=0)
        for _ in range(2)
    )
    outputs = [
        results(experts, execution, x, weights, bounded=True)
        for experts, execution in ((auto, "auto"), (dense, "dense"))
    ]
    assert set(auto.ran_sparse) == {sparse}
    assert set(dense.ran_sparse) == {False}
    assert_equal(*outputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [16, 4, 2])
def test_auto_as_shipped_decides_for_a_list_by_the_share(
    n: int, rng: np.random.Generator
) -> None:
    """Two experts for a row: an eighth of all, a half, all."""
    sparse = {16: True, 4: keras.backend.backend() != "jax", 2: False}[n]
    x = rng.normal(size=(24, 6)).astype("float32")
    weights = [balanced(24, n, 2)]
    auto, dense = (
        NotingList([keras.layers.Dense(5) for _ in range(n)]) for _ in range(2)
    )
    auto.build(x.shape)
    dense.build(x.shape)
    dense.set_weights(auto.get_weights())
    outputs = [
        results(experts, execution, x, weights, bounded=True)
        for experts, execution in ((auto, "auto"), (dense, "dense"))
    ]
    assert set(auto.ran_sparse) == {sparse}
    assert_equal(*outputs)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize(("n", "width"), [(16, 128), (4, 8)])
def test_auto_as_shipped_counts_gates_that_promise_nothing(
    n: int, width: int, most: int, rng: np.random.Generator
) -> None:
    """Equal whether the batch has k experts a row or twice as many."""
    x = rng.normal(size=(512, width)).astype("float32")
    weights = [balanced(512, n, most)]
    auto, dense = (NotingExperts(n, width, seed=0) for _ in range(2))
    outputs = [
        results(experts, execution, x, weights, bounded=False)
        for experts, execution in ((auto, "auto"), (dense, "dense"))
    ]
    if n == 4:
        assert not any(auto.ran_sparse)  # There was nothing to count.
    elif most == 2 or keras.backend.backend() != "jax":
        assert any(auto.ran_sparse)
    assert_equal(*outputs)


def results(
    experts: Noting,
    execution: str,
    x: np.ndarray,
    weights: Sequence[np.ndarray],
    bounded: bool,
) -> list[np.ndarray]:
    """The output of each task, and the gradient of their squares for `x`."""
    n = experts.num_experts
    gates = [GivenGate(n, k=2, bounded=bounded) for _ in weights]
    mixture = MMoE(gates, experts, execution)
    outputs = mixture(x, gate_inputs=list(weights))

    def loss(x: Any) -> Any:
        outputs = mixture(x, gate_inputs=list(weights))
        return sum(ops.sum(ops.square(output)) for output in outputs)

    return [*map(ops.convert_to_numpy, outputs), *gradient(loss, x)]


def assert_equal(
    actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert np.abs(other).max() > 0.1
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * scale)
