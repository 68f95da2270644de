from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import expit

from keras_moe.layers import HoMEExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate
from tests.compiled import compiled
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import check_layer

N, ROWS, INPUTS = 3, 7, 5
SIZES = np.array([2, 0, 4], "int32")


def trained(units: Any = (6, 4), **kwargs: Any) -> HoMEExperts:
    """With weights as after a training: masks differ, and so do experts."""
    experts = HoMEExperts(N, units, mask_rank=2, seed=0, **kwargs)
    experts.build((None, INPUTS))
    rng = np.random.default_rng(1)
    for weight in experts.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return experts


def reference(experts: HoMEExperts, x: np.ndarray) -> np.ndarray:
    """Each expert on each row, `(rows, n, units)`."""
    outputs = []
    for expert in range(N):
        h = x
        if experts.mask_kernels:
            down, up = (to_numpy(w)[expert] for w in experts.mask_kernels)
            h = x * 2 * expit(x @ down @ up)
        for layer, kernel in enumerate(experts.kernels):
            bias = to_numpy(experts.biases[layer])[expert]
            h = h @ to_numpy(kernel)[expert] + bias
            if layer < len(experts.kernels) - 1:
                h = np.maximum(h, 0)
        mean, variance = h.mean(axis=1), h.var(axis=1)
        h = (h - mean[:, None]) / np.sqrt(variance[:, None] + 1e-3)
        h = h * to_numpy(experts.scales)[expert]
        h = h + to_numpy(experts.offsets)[expert]
        outputs.append(h * expit(h))
    return np.stack(outputs, axis=1)


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, INPUTS)).astype("float32")


@pytest.mark.parametrize("units", [4, (6, 4)])
def test_it_computes_what_the_paper_says(units: Any, x: np.ndarray) -> None:
    experts = trained(units)
    np.testing.assert_allclose(
        to_numpy(experts(x)), reference(experts, x), rtol=2e-4, atol=1e-5
    )


def test_groups_of_rows_have_the_outputs_of_their_expert(
    x: np.ndarray,
) -> None:
    experts = trained()
    outputs = compiled(lambda x, sizes: experts(x, group_sizes=sizes))(x, SIZES)
    of_row = np.repeat(np.arange(N), SIZES)
    rows = np.arange(len(of_row))
    np.testing.assert_allclose(
        outputs[: len(rows)],
        reference(experts, x)[rows, of_row],
        rtol=2e-4,
        atol=1e-5,
    )
    assert np.isfinite(outputs).all()


def test_masks_begin_at_one(x: np.ndarray) -> None:
    masked, plain = (
        HoMEExperts(N, 4, mask_rank=rank, seed=0) for rank in (2, None)
    )
    np.testing.assert_allclose(
        to_numpy(masked(x)), to_numpy(plain(x)), atol=1e-6
    )
    assert not plain.mask_kernels


@pytest.mark.usefixtures("sparse_pays")
def test_executions_agree_on_gradients(x: np.ndarray) -> None:
    def gradients(execution: str) -> list[np.ndarray]:
        gates = {t: TopKGate(N, k=1, seed=i) for i, t in enumerate("ab")}
        mixture = MMoE(gates, trained(), execution=execution)
        mixture.build(x.shape)
        return weight_gradient(
            lambda: sum(ops.sum(ops.square(y)) for y in mixture(x).values()),
            mixture.experts.trainable_variables,
        )

    for actual, expected in zip(
        gradients("sparse"), gradients("dense"), strict=True
    ):
        scale = max(np.abs(expected).max(), 1.0)
        np.testing.assert_allclose(actual / scale, expected / scale, atol=2e-5)


def test_some_of_the_experts_compute_the_same(x: np.ndarray) -> None:
    experts = trained()
    np.testing.assert_allclose(
        to_numpy(experts.subset([2, 0])(x)),
        to_numpy(experts(x))[:, [2, 0]],
        rtol=1e-5,
    )


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: HoMEExperts(N, [6, 4], mask_rank=2, dropout=0.5),
        x,
        folder=tmp_path,
        output_shape=(ROWS, N, 4),
        trainable_weights=8,
    )


@pytest.mark.parametrize("rank", [0, -1])
def test_a_wrong_rank_is_named(rank: int) -> None:
    with pytest.raises(ValueError, match=r"`mask_rank` must be.*Received"):
        HoMEExperts(N, 4, mask_rank=rank)
