"""What the optimizers and Keras's of the same names do with the same gradients.

All arrays are compared to float32 rounding of the largest numbers that they may
have had: kernels add in another order than Keras. Second moments are held to
less on TensorFlow, whose kernel rounds `1 - beta_2`.
"""

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_moe
from tests.examples import Drawn
from tests.examples import examples

Named = list[tuple[str, np.ndarray]]

NAMES = ("Adam", "Adagrad")
BACKEND = keras.backend.backend()

# What Keras does before and after the update.
AROUND: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.01},
    {"clipnorm": 0.5},
    {"clipvalue": 0.1},
    {"global_clipnorm": 0.5},
    {"use_ema": True, "ema_momentum": 0.9},
    {"use_ema": True, "ema_overwrite_frequency": 2},
    {"loss_scale_factor": 8.0},
    {"gradient_accumulation_steps": 2},
]
OWN: dict[str, list[dict[str, Any]]] = {
    "Adam": [
        {},
        {"beta_1": 0.0},
        {"beta_2": 0.9},
        {"epsilon": 1e-2},
        {"amsgrad": True, "beta_2": 0.5},
    ],
    "Adagrad": [
        {},
        {"initial_accumulator_value": 1.0, "epsilon": 0.0},
        # No kernel: the epsilon is too large, or the sums begin too small.
        {"epsilon": 1e-2},
        {"initial_accumulator_value": 0.0},
    ],
}


def both(name: str, *args: Any, **options: Any) -> list[Any]:
    """Keras's optimizer and the one of that name here."""
    return [
        getattr(package.optimizers, name)(*args, **options)
        for package in (keras, keras_moe)
    ]


def trained(
    optimizer: Any,
    starts: list[np.ndarray],
    steps: list[list[np.ndarray]],
    dtype: str = "float32",
) -> Named:
    """Weights, then variables of the optimizer, after some steps."""
    variables = [
        keras.Variable(start, dtype=dtype, name=f"v{index}")
        for index, start in enumerate(starts)
    ]
    for gradients in steps:
        tensors = [
            keras.ops.convert_to_tensor(gradient, dtype)
            for gradient in gradients
        ]
        optimizer.apply(tensors, variables)
    return values([*variables, *optimizer.variables])


def values(variables: list[Any]) -> Named:
    return [
        (
            variable.name,
            keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")),
        )
        for variable in variables
    ]


def assert_equal(ours: Named, theirs: Named, rounding: float = 2e-6) -> None:
    for (name, a), (other, b) in zip(ours, theirs, strict=True):
        assert name == other
        bound = rounding
        if BACKEND == "tensorflow" and name.endswith("velocity"):
            bound = max(rounding, 3e-5)
        scale = np.abs(b).max(initial=0)
        if "_" not in name:  # A weight, which has begun near 1.
            scale = max(scale, 1)
        np.testing.assert_allclose(a, b, bound, bound * scale, err_msg=name)


def drawn(
    shapes: list[tuple[int, ...]], seed: int, num_steps: int
) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    rng = np.random.default_rng(seed)
    starts = [rng.normal(size=shape) for shape in shapes]
    # Gradients of all sizes, and some that are zero.
    steps = [
        [
            rng.normal(size=shape)
            * 10.0 ** rng.integers(-6, 2, shape)
            * rng.integers(0, 2, shape)
            for shape in shapes
        ]
        for _ in range(num_steps)
    ]
    return starts, steps


shapes = st.lists(
    st.lists(st.integers(1, 5), max_size=3).map(tuple), min_size=1, max_size=3
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@examples(15)
@given(st.data())
def test_any_shapes_and_options(name: str, data: st.DataObject) -> None:
    options = {
        **data.draw(st.sampled_from(OWN[name])),
        **data.draw(st.sampled_from(AROUND)),
    }
    arrays = drawn(
        data.draw(shapes),
        data.draw(st.integers(0, 2**32 - 1)),
        data.draw(st.integers(1, 6)),
    )
    rate = data.draw(st.sampled_from([1e-3, 0.3]))
    theirs, ours = (
        trained(optimizer, *arrays) for optimizer in both(name, rate, **options)
    )
    assert_equal(ours, theirs)


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_hundreds_of_steps(name: str) -> None:
    theirs, ours = (
        trained(optimizer, *drawn([(7, 5), (3,)], 0, 300))
        for optimizer in both(name, 0.01)
    )
    assert_equal(ours, theirs, rounding=5e-6)


def test_adam_by_hand() -> None:
    # First moments 0.1 * 2, second 0.001 * 4; both corrected to 2 and 4.
    after = dict(
        trained(
            keras_moe.optimizers.Adam(0.5), [np.ones(1)], [[np.full(1, 2.0)]]
        )
    )
    np.testing.assert_allclose(after["v0_momentum"], [0.2], rtol=1e-6)
    np.testing.assert_allclose(after["v0_velocity"], [0.004], rtol=3e-5)
    np.testing.assert_allclose(after["v0"], [1 - 0.5 * 2 / 2], rtol=1e-5)


def test_adagrad_by_hand() -> None:
    # 0.5 * 0.3 / sqrt(0.1 + 0.3²)
    after = dict(
        trained(
            keras_moe.optimizers.Adagrad(0.5), [np.ones(1)], [[np.full(1, 0.3)]]
        )
    )
    np.testing.assert_allclose(after["v0_accumulator"], [0.19], rtol=1e-6)
    np.testing.assert_allclose(after["v0"], [1 - 0.3441236], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_rounded_as_keras_does(name: str, dtype: str) -> None:
    arrays = [np.ones((2, 3))], [[np.full((2, 3), 0.3)]] * 3
    theirs, ours = (
        trained(optimizer, *arrays, dtype=dtype)
        for optimizer in both(name, 0.1)
    )
    np.testing.assert_equal(dict(ours), dict(theirs))


@pytest.mark.parametrize("name", NAMES)
def test_float32_beside_other_types(name: str) -> None:
    def apply(optimizer: Any) -> Named:
        variables = [
            keras.Variable(np.ones(3), dtype=dtype, name=dtype)
            for dtype in ("float32", "bfloat16", "float32")
        ]
        for _ in range(3):
            optimizer.apply(
                [
                    keras.ops.full((3,), 0.3, dtype=variable.dtype)
                    for variable in variables
                ],
                variables,
            )
        return values([*variables, *optimizer.variables])

    theirs, ours = map(apply, both(name, 0.1))
    assert_equal(ours, theirs)


def fitted(optimizer: Any, dtype: str = "float32", **options: Any) -> Named:
    """Weights and state after `fit`, in a compiled step where there is one."""
    keras.utils.clear_session()  # Names are counted from the start.
    keras.utils.set_random_seed(0)
    experts = keras_moe.layers.MLPExperts(4, 8, dtype=dtype)
    mixture = keras_moe.layers.MoE(
        keras_moe.layers.TopKGate(4, 2), experts, dtype=dtype
    )
    ids = keras.Input((2,), dtype="int32")
    rows = keras.layers.Embedding(9, 4, dtype=dtype)(ids)
    rows = keras.layers.Flatten(dtype=dtype)(rows)
    outputs = keras.layers.Dense(1, dtype="float32")(mixture(rows))
    model = keras.Model(ids, outputs)
    model.compile(optimizer, loss="mse", **options)
    rng = np.random.default_rng(0)
    x, y = rng.permuted(np.arange(64) % 9).reshape(32, 2), rng.normal(size=32)
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return values([*model.weights, *model.optimizer.variables])


# One by one, as `trained` runs them, JAX compiles each operation of a step.
STEPS = [True] if Drawn.few and BACKEND == "jax" else [False, True]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("jit_compile", STEPS)
def test_fit(name: str, jit_compile: bool) -> None:
    if jit_compile and BACKEND == "torch":
        pytest.skip("fit compiles by a compiler of C++, which need not be here")
    theirs, ours = (
        fitted(optimizer, jit_compile=jit_compile)
        for optimizer in both(name, 0.01)
    )
    assert_equal(ours, theirs, rounding=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_fit_in_mixed_precision_with_a_scaled_loss(name: str) -> None:
    theirs, ours = (
        fitted(
            keras.optimizers.LossScaleOptimizer(optimizer),
            dtype="mixed_float16",
            jit_compile=BACKEND == "jax",
        )
        for optimizer in both(name, 0.01)
    )
    assert_equal(ours, theirs, rounding=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_learning_rates_by_a_schedule(name: str) -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    theirs, ours = (
        trained(optimizer, *drawn([(4, 2)], 3, 5))
        for optimizer in both(name, schedule)
    )
    assert_equal(ours, theirs)
