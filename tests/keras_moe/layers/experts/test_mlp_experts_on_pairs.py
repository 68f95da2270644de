"""Experts that gather and add up pairs, against those that do not."""

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from keras_moe.layers import MLPExperts
from keras_moe.layers.isolated_state import run_isolated
from keras_moe.ops._pair_blocks import Pairs
from keras_moe.ops.combine import pair_weights
from tests.compiled import compiled
from tests.gradients import gradient_function

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX has these loops"
)

INPUTS, EXPERTS = 3, 4


def make_experts(**options: Any) -> MLPExperts:
    options = {"bias_initializer": "random_normal", "seed": 0, **options}
    experts = MLPExperts(EXPERTS, [5, 2], **options)
    experts.build((None, INPUTS))
    return experts


def make_batch(
    seed: int, num_rows: int, share: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and weights of which a share is not zero."""
    rng = np.random.default_rng(seed)
    weights = rng.random((num_rows, EXPERTS)).astype("float32")
    weights[rng.random(weights.shape) > share] = 0
    return rng.normal(size=(num_rows, INPUTS)).astype("float32"), weights


def by_slots(experts: MLPExperts, rows: Any, weights: Any, plan: Any) -> Any:
    """Gathers before the experts, and adds up behind them."""
    outputs = experts(
        ops.dispatch(rows, plan), group_sizes=plan.group_sizes, training=True
    )
    return ops.combine(outputs, weights[:, None], plan)[0]


def on_pairs(experts: MLPExperts, rows: Any, weights: Any, plan: Any) -> Any:
    pairs = Pairs(plan.rows, pair_weights(weights, plan))
    return experts(
        rows, group_sizes=plan.group_sizes, training=True, pairs=pairs
    )


class Ways:
    """Both ways, each compiled once, for a fixed number of slots."""

    def __init__(self, experts: MLPExperts, spare: int = 0) -> None:
        self._values = [v.value for v in experts.trainable_variables]
        self._runs = [
            self._compile(run, experts, spare) for run in (by_slots, on_pairs)
        ]

    def _compile(self, run: Any, experts: MLPExperts, spare: int) -> Any:
        states = experts.non_trainable_variables
        starts = [state.value for state in states]

        def outputs(rows: Any, weights: Any) -> Any:
            plan = ops.routing_plan(weights != 0, weights.size + spare)
            # Each time with the same random numbers.
            return run_isolated(
                lambda: run(experts, rows, weights, plan), states, starts
            )[0]

        def loss(rows: Any, weights: Any) -> Any:
            return keras.ops.sum(keras.ops.square(outputs(rows, weights)))

        gradients = gradient_function(loss, experts.trainable_variables)
        run_compiled = compiled(outputs)
        return lambda *arrays: [
            run_compiled(*arrays),
            *gradients(*self._values, *arrays),
        ]

    def results(self, rows: np.ndarray, weights: np.ndarray) -> list[Any]:
        """Per way: outputs, gradients of the experts, rows and weights."""
        return [list(run(rows, weights)) for run in self._runs]

    def assert_same(
        self, rows: np.ndarray, weights: np.ndarray, tolerance: float = 1e-5
    ) -> None:
        expected, actual = self.results(rows, weights)
        for one, other in zip(expected, actual, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(
                other.astype("float32"),
                one.astype("float32"),
                rtol=tolerance,
                atol=tolerance,
            )


def test_both_ways_agree() -> None:
    ways = Ways(make_experts(activation="gelu"), spare=5)

    @settings(deadline=None, max_examples=30)
    @given(seed=st.integers(0, 99), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    def check(seed: int, share: float) -> None:
        ways.assert_same(*make_batch(seed, 24, share))

    check()


@pytest.mark.parametrize(
    "options",
    [
        {"use_bias": False, "activation": None},
        {"activation": "softmax"},
        {"dropout": 0.5},
    ],
)
def test_both_agree_for_other_experts(options: dict[str, Any]) -> None:
    Ways(make_experts(**options)).assert_same(*make_batch(0, 100))


def test_both_agree_in_half_precision() -> None:
    experts = make_experts(dtype="mixed_bfloat16")
    Ways(experts).assert_same(*make_batch(0, 100), tolerance=0.05)


def test_pairs_without_weights_are_not_added_up() -> None:
    experts = make_experts()
    rows, weights = make_batch(0, 30)
    plan = ops.routing_plan(weights != 0, 100)
    outputs = to_numpy(
        experts(rows, group_sizes=plan.group_sizes, pairs=Pairs(plan.rows))
    )
    used = to_numpy(plan.experts) < EXPERTS
    assert not outputs[~used].any()
    every = to_numpy(experts(rows))  # (N, E, H)
    expected = every[to_numpy(plan.rows), to_numpy(plan.experts) % EXPERTS]
    np.testing.assert_allclose(
        outputs[used], expected[used], rtol=1e-5, atol=1e-6
    )


def test_nan_stays_with_its_rows_and_experts() -> None:
    ways = Ways(make_experts(activation="gelu"))
    rows, weights = make_batch(0, 40)
    weights[:, 1] = 0
    weights[7] = [0, 0.5, 0, 0]  # The only row of expert 1, with NaN.
    rows[7] = np.nan
    _, (outputs, *of_experts, of_rows, of_weights) = ways.results(rows, weights)
    lost = np.arange(40) == 7
    for array in (outputs, of_rows, of_weights):
        np.testing.assert_array_equal(np.isnan(array).any(axis=1), lost)
    for grad in of_experts:
        assert np.isnan(grad[1]).any()
        assert np.isfinite(grad[[0, 2, 3]]).all()


def test_only_activations_of_keras_run_inside_of_the_loop() -> None:
    assert make_experts(activation=None)._takes_pairs
    assert not make_experts(activation=keras.layers.PReLU())._takes_pairs
    assert not make_experts(activation=lambda x: x)._takes_pairs

    class Other(MLPExperts):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            return super().call(*args, **kwargs)

    assert not Other(EXPERTS, 2)._takes_pairs
