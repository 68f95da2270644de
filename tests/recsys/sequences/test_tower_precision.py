"""The precision that a tower is trained in: its products, and nothing else."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from recsys.private_names import each_layer
from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.sequence_tower import SequenceTower
from recsys.sequences.transformer_block import TransformerBlock
from recsys.training.tower_precision import products_in

LENGTH, WIDTH = 6, 8


def mixture() -> MoE:
    experts = MLPExperts(4, [8, WIDTH], activation=["gelu", None])
    return MoE(TopKGate(4, k=2), experts)


BLOCKS: dict[str, Callable[[], keras.layers.Layer]] = {
    "dense": lambda: TransformerBlock(keras.layers.Dense(WIDTH)),
    "sparse": lambda: TransformerBlock(mixture()),
    "hstu": lambda: HSTUBlock(LENGTH),
}


def tower_of(name: str) -> SequenceTower:
    tower = SequenceTower([BLOCKS[name]()], LENGTH)
    tower.build((None, LENGTH, WIDTH))
    return tower


def policies(tower: SequenceTower) -> dict[str, str]:
    return {layer.path: layer.dtype_policy.name for layer in each_layer(tower)}


@pytest.mark.parametrize("name", BLOCKS)
def test_outputs_are_rounded_within_and_exact_afterwards(
    name: str, rng: np.random.Generator
) -> None:
    tower = tower_of(name)
    inputs = rng.normal(size=(3, LENGTH, WIDTH)).astype("float32")
    before, names = ops.convert_to_numpy(tower(inputs)), policies(tower)
    with products_in(tower, "bfloat16"):
        rough: Any = tower(inputs)
        assert keras.backend.standardize_dtype(rough.dtype) == "float32"
        rough = ops.convert_to_numpy(rough)
        assert "mixed_bfloat16" in policies(tower).values()
    assert 1e-6 < np.abs(rough - before).max() < 0.1
    assert policies(tower) == names
    np.testing.assert_array_equal(ops.convert_to_numpy(tower(inputs)), before)


def test_norms_and_what_blocks_add_up_are_exact() -> None:
    tower = tower_of("dense")
    with products_in(tower, "bfloat16"):
        rounded = {
            path
            for path, policy in policies(tower).items()
            if policy == "mixed_bfloat16"
        }
    (block,) = tower.blocks
    assert rounded == {
        block.feed_forward.path,
        block.attention.projection.path,
        block.attention.output_layer.path,
    }


def test_policies_are_back_after_an_error() -> None:
    tower = tower_of("dense")
    names = policies(tower)
    with pytest.raises(KeyboardInterrupt), products_in(tower, "bfloat16"):
        raise KeyboardInterrupt
    assert policies(tower) == names


def test_full_precision_changes_nothing() -> None:
    tower = tower_of("dense")
    names = policies(tower)
    with products_in(tower, "float32"):
        assert policies(tower) == names
