from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.checks import check_size
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_no_router_losses
from keras_moe.types import Config
from keras_moe.types import DTypeLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Integers into which the number of buckets may not fit.
NARROW_INTEGERS = ("int8", "uint8", "int16", "uint16")


@keras.saving.register_keras_serializable(package="keras_moe")
class HashGate(Gate):
    """Assigns each id to one expert, at random, once and for all.

    Computes `g = one_hot(table[id mod num_buckets])`. Nothing is trained.

    Attributes:
        table: `(num_buckets,)`, int32, the expert of each bucket. It is saved
            with the model.
        k: 1.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        num_buckets: Integer `>= 1`, the number of different ids; larger ids
            wrap around.
        balanced: Boolean, defaults to `False`. Whether every expert gets the
            same number of buckets, up to 1; otherwise each bucket's expert
            is drawn on its own.
        seed: Integer `>= 0`, defaults to 0. Seeds the table, which is the
            same on every backend. Gates of one seed have one table, as those
            of all tasks have in the papers' comparisons; tables that shall
            differ need seeds that differ.
        **kwargs: `name`, `dtype`.

    Call arguments:
        inputs: Integer tensor `(...)` of ids.

    Returns:
        Float32 tensor `(..., n)`, on the simplex.

    Raises:
        TypeError: If an argument is not an integer, or the ids are not.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `num_buckets`
            outside `[1, 2^31)`, `seed < 0`, or the weight of a loss is given,
            as there is nothing to train.

    Example:
        >>> gate = HashGate(num_experts=4, num_buckets=8, balanced=True)
        >>> weights = gate(np.arange(8))
        >>> [float(load) for load in keras.ops.sum(weights, axis=0)]
        [2.0, 2.0, 2.0, 2.0]

    References:
        Roller et al., Hash Layers For Large Sparse Models, NeurIPS 2021.
    """

    always_sparse = True
    on_simplex = True
    feature_rank = 0
    fixed_by_seed = True

    def __init__(
        self,
        num_experts: int,
        num_buckets: int,
        balanced: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        check_no_router_losses(kwargs, "a HashGate has nothing to train")
        super().__init__(
            num_experts,
            k=1,
            static=False,
            seed=check_integer("seed", seed, 0),
            **kwargs,
        )
        self.num_buckets = check_size("num_buckets", num_buckets)
        self.balanced = balanced

    def build(self, input_shape: Shape) -> None:
        self.table = self.add_weight(
            name="table",
            shape=(self.num_buckets,),
            dtype="int32",
            initializer=self._draw_table,
            trainable=False,
        )

    def _draw_table(self, shape: tuple[int, ...], dtype: DTypeLike) -> Tensor:
        # NumPy's generator draws the same table on every backend.
        generator = np.random.default_rng(self.seed)
        if self.balanced:
            table = generator.permutation(*shape) % self.num_experts
        else:
            table = generator.integers(self.num_experts, size=shape)
        return ops.convert_to_tensor(table, dtype=dtype)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not keras.backend.is_int_dtype(dtype):
            raise TypeError(
                f"`inputs` of a HashGate must be integer ids. Received: "
                f"inputs of dtype {dtype}"
            )
        if dtype in NARROW_INTEGERS:
            inputs = ops.cast(inputs, "int32")
        buckets = ops.cast(ops.mod(inputs, self.num_buckets), "int32")
        experts = ops.take(self.table, buckets, axis=0)  # Shaped as the ids.
        return ops.one_hot(experts, self.num_experts, dtype="float32")

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_buckets": self.num_buckets,
            "balanced": self.balanced,
        }
