"""Experts that no gate weighs: each row gets all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConstantGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.layers import prune_experts
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.layer_test import check_layer

EXECUTIONS = ["dense", "sparse", "auto"]


def bank(num_experts: int, seed: int) -> MLPExperts:
    return MLPExperts(
        num_experts,
        [4, 2],
        activation=["relu", None],
        bias_initializer="random_normal",
        seed=seed,
    )


def of_each(experts: MLPExperts, x: np.ndarray) -> np.ndarray:
    """The outputs `(N, E, H)` of the two layers of a `bank`."""
    first, second = map(to_numpy, experts.kernels)
    of_first, of_second = map(to_numpy, experts.biases)
    hidden = np.maximum(np.einsum("nd,edh->neh", x, first) + of_first, 0)
    return np.einsum("neh,eho->neo", hidden, second) + of_second


def test_their_outputs_are_added_with_weight_one() -> None:
    one = {"activation": None, "use_bias": False}
    mixture = MoE(
        GivenGate(2),
        MLPExperts(2, 1, **one),
        shared_experts=MLPExperts(2, 1, **one),
    )
    mixture.build((None, 1), (None, 2))
    mixture.experts.kernels[0].assign([[[1.0]], [[10.0]]])
    mixture.shared_experts.kernels[0].assign([[[100.0]], [[0.5]]])
    weights = np.array([[0.5, 0.5], [0.0, 1.0]])
    # 0.5 * 2 + 0.5 * 20 + 200 + 1, and 1 * 30 + 300 + 1.5.
    output = mixture(np.array([[2.0], [3.0]]), gate_inputs=weights)
    assert to_numpy(output).tolist() == [[212.0], [331.5]]


@pytest.mark.traced_once("tensorflow")
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_each_task_gets_them_in_every_execution(
    execution: str, rng: np.random.Generator
) -> None:
    mixture = MMoE(
        [GivenGate(5, k=2) for _ in range(2)],
        bank(5, seed=0),
        execution,
        shared_experts=bank(2, seed=1),
    )
    mixture.build((None, 3), [(None, 5)] * 2)
    x = rng.normal(size=(7, 3)).astype("float32")
    weights = [balanced(7, 5, 2), balanced(7, 5, 1)]
    shared = of_each(mixture.shared_experts, x).sum(axis=1)
    expected = [
        np.einsum("ne,neh->nh", w, of_each(mixture.experts, x)) + shared
        for w in weights
    ]
    for actual, values in zip(
        mixture(x, gate_inputs=weights), expected, strict=True
    ):
        np.testing.assert_allclose(
            to_numpy(actual), values, rtol=1e-4, atol=1e-5
        )

    def total() -> Any:
        return sum(map(ops.sum, mixture(x, gate_inputs=weights)))

    last_bias = mixture.shared_experts.biases[1]
    kernel = mixture.shared_experts.kernels[1]
    of_bias, of_kernel = weight_gradient(total, [last_bias, kernel])
    # Two tasks of seven rows.
    np.testing.assert_allclose(of_bias, np.full((2, 2), 14.0), rtol=1e-5)
    first = to_numpy(mixture.shared_experts.kernels[0])
    bias = to_numpy(mixture.shared_experts.biases[0])
    hidden = np.maximum(np.einsum("nd,edh->neh", x, first) + bias, 0)
    np.testing.assert_allclose(
        of_kernel,
        np.repeat(2 * hidden.sum(axis=0)[..., None], 2, axis=2),
        rtol=1e-4,
        atol=1e-5,
    )


def test_masked_rows_stay_zero_and_pass_on_no_nan(
    rng: np.random.Generator,
) -> None:
    mixture = MoE(
        TopKGate(3, k=1, seed=0), bank(3, seed=0), shared_experts=bank(1, 1)
    )
    mask = np.array([[True, False, True], [False, True, True]])
    tokens = rng.normal(size=(2, 3, 4)).astype("float32")
    tokens[~mask] = np.nan
    output = to_numpy(mixture(tokens, mask=mask))
    assert output.shape == (2, 3, 2)
    assert (output[~mask] == 0).all()
    np.testing.assert_allclose(
        output[mask], to_numpy(mixture(tokens[mask])), rtol=1e-5, atol=1e-6
    )
    gradients = weight_gradient(
        lambda: ops.sum(mixture(tokens, mask=mask)),
        mixture.trainable_variables,
    )
    assert all(np.isfinite(each).all() for each in gradients)


def test_a_mask_of_one_task_is_not_that_of_another(
    rng: np.random.Generator,
) -> None:
    mixture = MMoE(
        [TopKGate(3, k=1, seed=seed) for seed in range(2)],
        bank(3, seed=0),
        shared_experts=bank(1, seed=1),
    )
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    seen = np.array(x)
    seen[0, 1] = 0.0  # What `Masking` leaves out.
    masked = keras.layers.Masking()(seen)
    first, second = map(to_numpy, mixture(x, gate_inputs=[masked, x]))
    assert (first[0, 1] == 0).all()
    assert (second[0, 1] != 0).any()


def test_a_row_with_nan_is_no_others_affair(rng: np.random.Generator) -> None:
    mixture = MoE(
        TopKGate(3, k=1, seed=0),
        bank(3, seed=0),
        "sparse",
        shared_experts=bank(2, 1),
    )
    x = rng.normal(size=(4, 3)).astype("float32")
    expected = to_numpy(mixture(x))
    x[2] = np.nan
    output = to_numpy(mixture(x))
    assert np.isnan(output).all(axis=1).tolist() == [False, False, True, False]
    np.testing.assert_allclose(
        output[[0, 1, 3]], expected[[0, 1, 3]], rtol=1e-5
    )


@pytest.mark.traced_once("tensorflow")
@pytest.mark.eager
def test_layers_may_need_the_whole_batch_and_add_losses(
    rng: np.random.Generator,
) -> None:
    shared = [
        keras.Sequential(
            [
                keras.layers.Flatten(),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(2, activity_regularizer="l2"),
            ]
        )
    ]
    experts = [
        keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
        for _ in range(3)
    ]
    mixture = MoE(TopKGate(3, k=1), experts, "sparse", shared_experts=shared)
    images = rng.normal(size=(4, 5, 5, 1)).astype("float32")
    pixels = images.reshape(4, 25)
    alone = MoE(mixture.gate, experts, "sparse")
    output = mixture(images, gate_inputs=pixels)
    np.testing.assert_allclose(
        to_numpy(output),
        to_numpy(alone(images, gate_inputs=pixels))
        + to_numpy(shared[0](images)),
        rtol=1e-5,
        atol=1e-6,
    )
    mixture(images, gate_inputs=pixels, training=True)
    assert len(mixture.losses) == 1
    (of_images,) = gradient(
        lambda x: ops.sum(mixture(x, gate_inputs=pixels)), images
    )
    assert np.isfinite(of_images).all()


def test_they_start_unlike_the_experts_of_the_same_seed() -> None:
    mixture = MoE(TopKGate(2, k=1), bank(2, 5), shared_experts=bank(2, 5))
    mixture.build((None, 3))
    kernels = [
        kernel
        for experts in (mixture.experts, mixture.shared_experts)
        for kernel in to_numpy(experts.kernels[0])
    ]
    assert len({kernel.tobytes() for kernel in kernels}) == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "output_shape", "trainable_weights"),
    [
        (
            lambda: MoE(
                TopKGate(8, k=2),
                MLPExperts(8, 4),
                shared_experts=MLPExperts(2, 4, dropout=0.2, seed=0),
            ),
            (6, 4),
            6,
        ),
        (
            lambda: MMoE(
                {"a": TopKGate(3, k=1), "b": TopKGate(3, k=2)},
                MLPExperts(3, 4),
                shared_experts=[keras.layers.Dense(4) for _ in range(2)],
            ),
            {"a": (6, 4), "b": (6, 4)},
            10,
        ),
    ],
)
def test_it_is_a_proper_layer(
    make: Callable[[], keras.layers.Layer],
    output_shape: Any,
    trainable_weights: int,
    tmp_path: Path,
    rng: np.random.Generator,
) -> None:
    check_layer(
        make,
        rng.normal(size=(6, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=output_shape,
        trainable_weights=trainable_weights,
    )


@pytest.mark.once("torch")
def test_a_configuration_of_before_has_none() -> None:
    config = MoE(TopKGate(3, k=1), MLPExperts(3, 2)).get_config()
    assert config.pop("shared_experts") is None
    assert MoE.from_config(config).shared_experts is None


def test_pruning_keeps_them(rng: np.random.Generator) -> None:
    gates = [ConstantGate(np.eye(4)[i]) for i in (0, 2)]
    mixtures = [
        MoE(gates[0], bank(4, 0), shared_experts=bank(1, 1)),
        MMoE(gates, bank(4, 0), shared_experts=bank(1, 1)),
    ]
    x = rng.normal(size=(3, 4)).astype("float32")
    for mixture in mixtures:
        expected = mixture(x)
        pruned = prune_experts(mixture)
        assert pruned.experts.num_experts == 2
        for one, other in zip(
            keras.tree.flatten(pruned(x)),
            keras.tree.flatten(expected),
            strict=True,
        ):
            np.testing.assert_allclose(
                to_numpy(one), to_numpy(other), rtol=1e-5, atol=1e-6
            )


DENSE = keras.layers.Dense(2)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("shared", "error", "message"),
    [
        (
            2,
            TypeError,
            "`shared_experts` must be a list of Keras layers or models. "
            "Received: shared_experts=2",
        ),
        ([], ValueError, "`shared_experts` must hold at least one layer"),
        ([DENSE, DENSE], ValueError, "`shared_experts` must be different"),
        (
            [DENSE],
            ValueError,
            "`experts` and `shared_experts` must be different layers",
        ),
        (
            MLPExperts(1, 3),
            ValueError,
            "`shared_experts` must have the output shape of `experts`. "
            r"Received: outputs of shape \(None, 3\), experts with outputs",
        ),
    ],
)
def test_wrong_ones_are_refused(
    shared: Any, error: type[Exception], message: str
) -> None:
    experts = [DENSE, keras.layers.Dense(2)]
    with pytest.raises(error, match=message):
        MoE(TopKGate(2, k=1), experts, shared_experts=shared).build((None, 4))
