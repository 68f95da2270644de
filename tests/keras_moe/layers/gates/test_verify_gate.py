"""A gate that is not what it says is found out."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import ConstantGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import XMoEGate
from keras_moe.layers import verify_gate
from tests.compiled import compiled
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import dense

pytestmark = [pytest.mark.eager, pytest.mark.usefixtures("sparse_pays")]

N, ROWS = 5, 8


class Lying(Gate):
    """Weights that sum to 1, for as many experts as `given` says."""

    given = 4

    def build(self, input_shape: Any) -> None:
        """There is nothing to build."""

    def compute_weights(
        self, inputs: Any, training: bool | None, mask: Any
    ) -> Any:
        weights = np.zeros(N, "float32")
        weights[: self.given] = 1 / self.given
        # NaN where an input is.
        row = 0.0 * ops.sum(inputs, axis=-1, keepdims=True)
        return row + ops.convert_to_tensor(weights)


class NotSparse(Lying):
    always_sparse = True


class OnlySparseAtInference(Lying):
    always_sparse = True

    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return weights if training else 0.0 * weights


class OverTheBudget(Lying):
    def max_pairs(self, num_rows: Any) -> Any:
        return num_rows * 4 - 1

    def is_bounded(self, training: bool | None) -> bool:
        return True


class NotOnSimplex(XMoEGate):
    on_simplex = True


class Negative(Lying):
    on_simplex = True

    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return weights + ops.convert_to_tensor([-1.0, 1, 0, 0, 0])


class OfIds(SoftmaxGate):
    feature_rank = 0


class HidesNaN(Lying):
    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return ops.where(ops.isnan(weights), 0.0, weights)


class SpreadsNaN(SoftmaxGate):
    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return weights - 0.0 * ops.mean(weights)


class NotStatic(Lying):
    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return weights[0] + ops.mean(inputs)


class InHalfPrecision(SoftmaxGate):
    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        return ops.cast(weights, "float16")


class WeighsPadding(SoftmaxGate):
    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return super().call(inputs, training)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (NotSparse(N, k=2), "`always_sparse` promises at most k=2 .* 4 from"),
        (NotSparse(N), "`always_sparse` must be False for a gate without `k`"),
        (OnlySparseAtInference(N, k=2), "`always_sparse`.* training=True"),
        (OverTheBudget(N, k=4), "`is_bounded` promises at most 31 .* 32 from"),
        (NotOnSimplex(N, k=2), "`on_simplex` promises .* sum to 1"),
        (Negative(N), "`on_simplex` promises nonnegative weights"),
        (OfIds(N), r"`feature_rank` make .* \(8, 3, 5\). Received.*\(8, 5\)"),
        (Lying(N + 1), r"`num_experts`.* \(8, 6\). Received.*\(8, 5\)"),
        (Lying(N, static=True), r"`static` .* \(5,\). Received.*\(8, 5\)"),
        (NotStatic(N, static=True), "`static` promises weights that do not"),
        (HidesNaN(N), r"must have NaN among .* of the rows \[\] for NaN in"),
        (SpreadsNaN(N), r"no other example .* of the rows \[0, 1, 2, 3, "),
        (InHalfPrecision(N), "float32 weights .* Received: float16"),
        (WeighsPadding(N), "Padding must get no weight"),
    ],
)
def test_a_false_attribute_is_named(
    gate: Gate, message: str, rng: np.random.Generator
) -> None:
    inputs = rng.normal(size=(ROWS, 3)).astype("float32")
    with pytest.raises(ValueError, match=message):
        verify_gate(gate, inputs)


def test_attributes_that_depend_on_arguments() -> None:
    assert ConstantGate([0.5, 0.0, 0.5]).on_simplex
    assert not ConstantGate([0.25, 0.5]).on_simplex
    assert not ConstantGate([1.0, 1.0]).on_simplex
    assert DSelectKGate(N, k=2).on_simplex
    assert not DSelectKGate(N, k=2, unreachable="penalty").on_simplex


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_mixture_refuses_a_gate_that_is_not_sparse(num_tasks: int) -> None:
    gates = [GivenGate(N, k=2, bounded=True) for _ in range(num_tasks)]
    mixture = MMoE(gates, MLPExperts(N, 3))
    x = np.ones((ROWS, 3), "float32")
    weights = [balanced(ROWS, N, 2)] * (num_tasks - 1) + [dense(ROWS, N, 2)]
    with pytest.raises(ValueError, match=r"`always_sparse`.*GivenGate"):
        mixture(x, gate_inputs=weights)


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_compiled_outputs_are_nan_or_right(
    num_tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is checked, only static shapes can lose a pair."""
    monkeypatch.delenv("KERAS_MOE_CHECK_VALUES")
    gates = [GivenGate(N, k=2, bounded=True) for _ in range(num_tasks)]
    experts = MLPExperts(N, 3, kernel_initializer="ones")
    x = np.arange(3.0 * ROWS).astype("float32").reshape(ROWS, 3)
    weights = [balanced(ROWS, N, 2)] * (num_tasks - 1) + [dense(ROWS, N, 2)]
    shapes = (x.shape, [(ROWS, N)] * num_tasks)
    results = []
    for execution in ("auto", "dense"):
        mixture = MMoE(gates, experts, execution=execution)
        mixture.build(*shapes)

        def call(x: Any, *weights: Any, mixture: Any = mixture) -> Any:
            return mixture(x, gate_inputs=list(weights))

        results.append(compiled(call)(x, *weights))
    for actual, expected in zip(*results, strict=True):
        if keras.backend.backend() == "jax":
            assert np.isnan(actual).all()
        else:
            np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="XLA under TensorFlow"
)
def test_so_are_those_that_xla_compiles() -> None:
    import tensorflow as tf

    mixture = MoE(GivenGate(N, k=2, bounded=True), MLPExperts(N, 3))
    mixture.build((ROWS, 3), (ROWS, N))
    compute = tf.function(
        lambda x, weights: mixture(x, gate_inputs=weights), jit_compile=True
    )
    x = np.ones((ROWS, 3), "float32")
    assert np.isfinite(compute(x, balanced(ROWS, N, 2))).all()
    assert np.isnan(compute(x, dense(ROWS, N, 2))).all()


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs of TensorFlow"
)
def test_a_graph_raises_an_error_where_values_are_checked() -> None:
    import tensorflow as tf

    mixture = MoE(GivenGate(N, k=2, bounded=True), MLPExperts(N, 3))
    mixture.build((ROWS, 3), (ROWS, N))
    compute = tf.function(lambda x, weights: mixture(x, gate_inputs=weights))
    x = np.ones((ROWS, 3), "float32")
    compute(x, balanced(ROWS, N, 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="always_sparse"):
        compute(x, dense(ROWS, N, 2))


def test_honest_gates_pass(rng: np.random.Generator) -> None:
    inputs = rng.normal(size=(ROWS, 3)).astype("float32")
    for gate in (TopKGate(N, k=2), TopKGate(N, k=2, static=True), Lying(N)):
        verify_gate(gate, inputs)
    verify_gate(ConstantGate([0.0, 1.0]), inputs)
