import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from keras_moe.ops import dispatch
from tests.gradients import gradient

# JAX has no plan whose size depends on the values.
SIZES = [20]
if keras.backend.backend() != "jax":
    SIZES.append(None)


@pytest.mark.parametrize("max_pairs", SIZES)
@pytest.mark.parametrize("shape", [(7,), (2, 3), ()])
def test_rows_are_copied_and_their_gradients_added(
    shape: tuple[int, ...], max_pairs: int | None, rng: np.random.Generator
) -> None:
    selected = rng.random((5, 4)) < 0.5
    selected[2] = False
    plan = ops.routing_plan(selected, max_pairs)
    inputs = rng.normal(size=(5, *shape)).astype("float32")
    rows = to_numpy(plan.rows)
    slots = dispatch(inputs, plan)
    np.testing.assert_array_equal(to_numpy(slots), inputs[rows])

    upstream_grad = rng.normal(size=(len(rows), *shape)).astype("float32")
    expected = np.zeros_like(inputs)
    np.add.at(expected, rows, upstream_grad)

    def weighted(inputs: object) -> object:
        return keras.ops.sum(
            keras.ops.multiply(dispatch(inputs, plan), upstream_grad)
        )

    (of_inputs,) = gradient(weighted, inputs)
    np.testing.assert_allclose(of_inputs, expected, atol=1e-6)
