"""`MLPExperts(split=m)`: each expert cut into m smaller ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.layer_test import check_layer


def pair(split: int, **kwargs: Any) -> MLPExperts:
    return MLPExperts(
        3, [8, 5], activation=["relu", None], split=split, **kwargs
    )


def test_hidden_widths_are_cut_and_the_last_one_stays() -> None:
    experts = MLPExperts(3, [8, 12, 5], split=4)
    experts.build((None, 7))
    assert (experts.num_experts, experts.split) == (12, 4)
    assert experts.units == [2, 3, 5]
    assert [tuple(kernel.shape) for kernel in experts.kernels] == [
        (12, 7, 2),
        (12, 2, 3),
        (12, 3, 5),
    ]


def test_with_one_hidden_layer_the_kernels_are_as_large() -> None:
    sizes = []
    for split in (1, 4):
        experts = pair(split)
        experts.build((None, 7))
        sizes.append([np.prod(kernel.shape) for kernel in experts.kernels])
    assert sizes[0] == sizes[1]


def test_the_parts_of_an_expert_add_up_to_it(rng: np.random.Generator) -> None:
    whole, parts = pair(1, seed=0), pair(2)
    x = rng.normal(size=(4, 7)).astype("float32")
    expected = to_numpy(whole(x))  # (4, 3, 5)
    parts.build((None, 7))
    first, second = map(to_numpy, whole.kernels)
    # Of the hidden units of each expert, each part has half.
    parts.kernels[0].assign(
        first.reshape(3, 7, 2, 4).transpose(0, 2, 1, 3).reshape(6, 7, 4)
    )
    parts.kernels[1].assign(second.reshape(6, 4, 5))
    outputs = to_numpy(parts(x)).reshape(4, 3, 2, 5)
    np.testing.assert_allclose(
        outputs.sum(axis=2), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.once("torch")
def test_they_are_drawn_as_experts_of_their_size() -> None:
    cut = MLPExperts(2, [80, 50], split=4, seed=3)
    small = MLPExperts(8, [20, 50], seed=3)
    for experts in (cut, small):
        experts._place = 1
        experts.build((None, 100))
    for one, other in zip(cut.weights, small.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
    # U(-limit, limit) of fan in 100 and fan out 20.
    limit = np.sqrt(6 / 120)
    assert 0.98 * limit < np.abs(to_numpy(cut.kernels[0])).max() <= limit


@pytest.mark.once("torch")
def test_a_mixture_of_them_is_a_proper_layer(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    check_layer(
        lambda: MoE(TopKGate(6, k=2), MLPExperts(3, [8, 4], split=2)),
        rng.normal(size=(6, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 4),
        trainable_weights=6,
    )


@pytest.mark.once("torch")
def test_the_configuration_has_the_arguments() -> None:
    config = pair(2).get_config()
    assert (config["num_experts"], config["units"]) == (3, [8, 5])
    restored = MLPExperts.from_config(config)
    assert (restored.num_experts, restored.units) == (6, [4, 5])
    before = pair(1).get_config()
    assert before.pop("split") == 1
    assert MLPExperts.from_config(before).num_experts == 3


def test_a_subset_is_one_of_the_small_experts(
    rng: np.random.Generator,
) -> None:
    experts = pair(2, seed=0)
    x = rng.normal(size=(4, 7)).astype("float32")
    expected = to_numpy(experts(x))[:, [4, 1, 2]]
    kept = experts.subset([4, 1, 2])
    np.testing.assert_allclose(to_numpy(kept(x)), expected, rtol=1e-5)
    assert MLPExperts.from_config(kept.get_config()).num_experts == 3


@pytest.mark.once("torch")
def test_repr_names_a_split_where_there_is_one() -> None:
    assert "num_experts=3, units=[8, 5]" in repr(pair(2))
    assert "split=2" in repr(pair(2))
    assert "split" not in repr(pair(1))


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: MLPExperts(2, [4, 2], split=0),
            ValueError,
            "`split` must be at least 1. Received: split=0",
        ),
        (
            lambda: MLPExperts(2, [4, 2], split=1.5),
            TypeError,
            "`split` must be an integer",
        ),
        (
            lambda: MLPExperts(2, 4, split=2),
            ValueError,
            "`split` must be 1 for experts of one layer.*Received: split=2",
        ),
        (
            lambda: MLPExperts(2, [4, 6, 2], split=4),
            ValueError,
            r"`split` must divide the width of each hidden layer.*"
            r"Received: split=4, units=\[4, 6, 2\]",
        ),
        (
            lambda: MoE(SoftmaxGate(3), pair(2)),
            ValueError,
            r"gates with num_experts=\[3\], experts with num_experts=6, 3 of "
            "them split into 2 each",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    make: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_gate_of_all_of_them_fits(rng: np.random.Generator) -> None:
    x = rng.normal(size=(9, 7)).astype("float32")
    mixtures = [
        MoE(TopKGate(6, k=2, seed=0), pair(2, seed=0), execution)
        for execution in ("dense", "sparse")
    ]
    dense, sparse = (to_numpy(mixture(x)) for mixture in mixtures)
    assert dense.shape == (9, 5)
    np.testing.assert_allclose(dense, sparse, rtol=1e-4, atol=1e-5)
