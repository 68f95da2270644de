import json
import re

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionalMask
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import POLICIES
from tests.keras_moe.layers.layer_test import check_build
from tests.keras_moe.layers.layer_test import check_config
from tests.keras_moe.layers.layer_test import check_fit
from tests.keras_moe.layers.layer_test import check_saving


def identity_mask(keep_rate, units=4, **kwargs):
    """A mask whose logits are its routing inputs."""
    mask = ConditionalMask(keep_rate, **kwargs)
    mask.build((None, units), (None, units))
    mask.routing_kernel.assign(np.eye(units))
    return mask


def kept(mask, routing_inputs):
    """The binary mask itself: what passes of a layer of ones."""
    ones = np.ones((*routing_inputs.shape[:-1], mask.routing_kernel.shape[-1]))
    return to_numpy(mask(ones.astype("float32"), routing_inputs)[0])


def test_the_largest_signed_entries_pass():
    routing_inputs = np.array([[-9.0, 2.0, -1.0, 5.0]], "float32")
    masked, routing = identity_mask(0.75)(
        np.array([[1.0, -2.0, 3.0, 0.5]], "float32"), routing_inputs
    )
    assert to_numpy(masked).tolist() == [[0, -2, 3, 0.5]]
    assert to_numpy(routing).tolist() == [[0, 2, -1, 5]]


def test_ties_go_to_the_lower_index():
    routing_inputs = np.array([[0.0] * 4, [-1, 2, 0, 0]], "float32")
    assert kept(identity_mask(0.5), routing_inputs).tolist() == [
        [1, 1, 0, 0],
        [0, 1, 1, 0],
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keep_rate", "units", "expected"),
    [
        (0.5, 7, 3),
        (0.1, 9, 1),  # Never none.
        (0.001, 3, 1),
        (0.9, 10, 9),
        (0.29, 100, 29),  # 28.999999999999996 in floating point.
        (1 / 3, 3, 1),
        (1, 5, 5),
    ],
)
def test_exactly_k_units_pass(keep_rate, units, expected, rng):
    mask = ConditionalMask(keep_rate)
    routing_inputs = rng.normal(size=(20, 3)).astype("float32")
    routing_inputs[0] = 0  # All tied.
    mask.build((20, units), (20, 3))
    assert mask.k == expected
    assert (kept(mask, routing_inputs).sum(axis=-1) == expected).all()


def test_no_rows():
    masked, routing = ConditionalMask(0.5)(np.ones((0, 4)), np.ones((0, 3)))
    assert masked.shape == routing.shape == (0, 4)


def test_any_leading_dimensions(rng):
    mask = identity_mask(0.5)
    routing_inputs = rng.normal(size=(2, 3, 5, 4)).astype("float32")
    np.testing.assert_array_equal(
        kept(mask, routing_inputs).reshape(30, 4),
        kept(mask, routing_inputs.reshape(30, 4)),
    )


def test_one_mask_may_be_shared_by_all_tokens():
    masked, _ = identity_mask(0.5)(
        np.ones((2, 3, 4), "float32"),
        np.array([[[1.0, 2, 0, 0]], [[0, 0, 1, 2]]], "float32"),
    )
    assert to_numpy(masked[:, 0]).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert (to_numpy(masked) == to_numpy(masked[:, :1])).all()


def test_the_matrix_is_uniform_within_the_published_bounds():
    mask = ConditionalMask(0.5, seed=0)
    mask.build((None, 200), (None, 100))
    matrix = to_numpy(mask.routing_kernel) * np.sqrt(100)
    assert -1 <= matrix.min() < -0.99
    assert 0.99 < matrix.max() <= 1
    # The variance of U(-1, 1).
    assert abs(matrix.var() - 1 / 3) < 0.01


def test_the_matrix_follows_its_seed_and_is_no_copy_of_the_kernel():
    def draw(seed):
        mask = ConditionalMask(0.5, seed=seed)
        mask.build((None, 4), (None, 3))
        return to_numpy(mask.routing_kernel)

    np.testing.assert_array_equal(draw(1), draw(1))
    assert (draw(1) != draw(2)).all()
    assert (draw(None) != draw(None)).any()
    kernel = to_numpy(keras.initializers.GlorotUniform(seed=1)((3, 4)))
    assert np.std(draw(1) / kernel) > 0.01


def test_gradients_pass_the_units_that_are_kept_and_no_others():
    cotangent = np.array([[1.0, 2.0, 3.0, 4.0]], "float32")
    mask = identity_mask(0.5)

    def total(inputs, routing_inputs):
        masked, routing = mask(inputs, routing_inputs)
        return ops.sum(ops.multiply(masked, cotangent)) + ops.sum(routing)

    inputs = np.ones((1, 4), "float32")
    routing_inputs = np.array([[3.0, 0.0, 2.0, 1.0]], "float32")
    # A gradient that depends on nothing does not exist in TensorFlow and
    # PyTorch: the zeros give it one.
    grads = gradient(
        lambda x, z: total(x, z) + 0 * ops.sum(z), inputs, routing_inputs
    )
    assert grads[0].tolist() == [[1, 0, 3, 0]]
    assert not grads[1].any()
    (grad,) = weight_gradient(
        lambda: (
            total(inputs, routing_inputs) + 0 * ops.sum(mask.routing_kernel)
        ),
        [mask.routing_kernel],
    )
    assert not grad.any()


def test_masked_infinities_reach_neither_output_nor_gradient():
    mask = identity_mask(0.5)
    routing_inputs = np.array([[3.0, 0.0, 2.0, 1.0]], "float32")
    inputs = np.array([[1.0, np.inf, 2.0, np.nan]], "float32")
    assert to_numpy(mask(inputs, routing_inputs)[0]).tolist() == [[1, 0, 2, 0]]
    (grad,) = gradient(
        lambda x: ops.sum(ops.square(mask(x, routing_inputs)[0])), inputs
    )
    assert grad.tolist() == [[2, 0, 4, 0]]


@pytest.mark.parametrize("policy", POLICIES)
def test_masks_are_decided_in_float32_under_any_policy(policy, rng):
    mask = identity_mask(0.5, units=16, dtype=policy)
    # Neighbours in float32, all the same in half precision.
    order = rng.permutation(16)
    routing_inputs = (1 + 1e-6 * order[None]).astype("float32")
    masked, routing = mask(np.ones((1, 16), "float32"), routing_inputs)
    assert keras.backend.standardize_dtype(masked.dtype) == mask.compute_dtype
    assert keras.backend.standardize_dtype(routing.dtype) == "float32"
    passed = to_numpy(ops.cast(masked, "float32"))[0]
    assert passed.tolist() == (order >= 8).tolist()
    symbolic = mask(keras.Input((16,)), keras.Input((16,)))
    assert [x.dtype for x in symbolic] == [mask.compute_dtype, "float32"]


def test_shapes():
    mask = ConditionalMask(0.5)
    shapes = ((2, 5, 8), (2, 1, 3))
    masked, routing = mask(*(np.ones(shape, "float32") for shape in shapes))
    assert mask.compute_output_shape(*shapes) == ((2, 5, 8), (2, 1, 8))
    assert (masked.shape, routing.shape) == ((2, 5, 8), (2, 1, 8))
    masked, routing = mask(keras.Input((5, 8)), keras.Input((1, 3)))
    assert (masked.shape, routing.shape) == ((None, 5, 8), (None, 1, 8))


def test_layer(rng, tmp_path):
    arrays = {
        "inputs": rng.normal(size=(6, 5)).astype("float32"),
        "routing_inputs": rng.normal(size=(6, 3)).astype("float32"),
    }

    def make_layer():
        return ConditionalMask(0.5, seed=3)

    check_config(make_layer)
    check_build(make_layer, arrays, 0, 1)
    check_fit(make_layer, arrays)
    check_saving(make_layer, arrays, tmp_path / "layer.keras")


def test_the_configuration_is_json_for_numpy_numbers():
    config = ConditionalMask(np.float32(0.5)).get_config()
    assert json.loads(json.dumps(config))["keep_rate"] == 0.5


def test_padding_passes_to_both_outputs():
    tokens = keras.layers.Masking()(np.array([[[1.0, 2.0], [0.0, 0.0]]]))
    for output in ConditionalMask(0.5)(tokens, tokens):
        assert to_numpy(output._keras_mask).tolist() == [[True, False]]


def test_a_chain_routes_by_the_first_inputs_alone(rng):
    """Whatever the layers between compute, the second mask is the same."""
    masks = [ConditionalMask(0.5, seed=seed) for seed in range(2)]
    x = rng.normal(size=(7, 6)).astype("float32")

    def second_mask(hidden):
        _, routing = masks[0](hidden, x)
        return kept(masks[1], routing)

    masks[0].build((7, 5), (7, 6))
    masks[1].build((7, 4), (7, 5))
    np.testing.assert_array_equal(
        second_mask(np.zeros((7, 5), "float32")),
        second_mask(rng.normal(size=(7, 5)).astype("float32")),
    )


@pytest.mark.parametrize(
    ("keep_rate", "error", "message"),
    [
        (0, ValueError, "above 0. Received: keep_rate=0"),
        (-0.5, ValueError, "above 0. Received: keep_rate=-0.5"),
        (1.5, ValueError, "`keep_rate` must be at most 1. Received: keep_rate"),
        ("a", TypeError, "`keep_rate` must be a number. Received: keep_rate"),
        (None, TypeError, "`keep_rate` must be a number. Received: keep_rate"),
    ],
)
def test_refuses_other_rates(keep_rate, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ConditionalMask(keep_rate)


def test_refuses_inputs_of_other_ranks():
    with pytest.raises(
        ValueError,
        match=r"`routing_inputs` must have as many dimensions as `inputs`. "
        r"Received: inputs of shape \(2, 3, 4\)",
    ):
        ConditionalMask(0.5)(np.ones((2, 3, 4)), np.ones((2, 5)))
