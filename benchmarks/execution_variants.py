"""The ways to execute a mixture that `layer_execution.py` compares."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from equal_groups import run_equal_groups
from keras import ops
from routing_scores import count_pairs
from routing_scores import make_scores

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate


class Shape(NamedTuple):
    """What is measured: the axes of the grid."""

    rows: int
    experts: int
    k: int
    tasks: int
    width: int
    layers: int
    routing: str

    def dense_bytes(self) -> int:
        """What all experts' outputs on all rows take, once."""
        return 4 * self.rows * self.experts * self.width * self.layers


class WideExperts(MLPExperts):
    """All experts' first layer on all rows as a single matmul."""

    def call(
        self, inputs: Any, group_sizes: Any = None, training: Any = None
    ) -> Any:
        experts, depth, units = self.kernels[0].shape
        kernel = ops.transpose(self.kernels[0], (1, 0, 2))
        kernel = ops.reshape(kernel, (depth, experts * units))
        outputs = ops.reshape(ops.matmul(inputs, kernel), (-1, experts, units))
        outputs = self.activations[0](outputs + self.biases[0])
        for layer in range(1, len(self.units)):
            outputs = ops.einsum("neh,ehu->neu", outputs, self.kernels[layer])
            outputs = self.activations[layer](outputs + self.biases[layer])
        return outputs


class StartingDense(TopKGate):
    """A gate that selects `k` experts per row and plans for `planned`.

    As gates that start dense before they are at the `k` that they declare.
    """

    always_sparse = False

    def __init__(self, *args: Any, planned: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.planned = planned

    @property
    def experts_per_row(self) -> float:
        return self.planned

    def max_pairs(self, num_rows: Any) -> Any:
        return num_rows * self.planned


class ScoredMixture(keras.layers.Layer):
    """A mixture of which gates are told by scores how to route.

    With `planned`, the gates promise no bound and plan for so many experts.
    """

    def __init__(
        self,
        num_experts: int,
        k: int,
        num_tasks: int,
        execution: str,
        experts: Any,
        planned: int | None = None,
    ) -> None:
        super().__init__()
        gate: Any = TopKGate
        if planned is not None:
            gate = partial(StartingDense, planned=planned)
        gates = [
            gate(
                num_experts,
                k,
                use_bias=False,
                kernel_initializer="identity",
            )
            for _ in range(num_tasks)
        ]
        self.mixture = MMoE(gates, experts, execution)

    def build(self, *shapes: Any) -> None:
        self.mixture.build(shapes[0], list(shapes[1:]))

    def call(self, inputs: Any, *scores: Any) -> Any:
        return self.mixture(inputs, gate_inputs=list(scores))


class Limit(keras.layers.Layer):
    """The experts on equal groups `(n, rows, width)`."""

    def __init__(self, experts: MLPExperts) -> None:
        super().__init__()
        self.experts = experts

    def build(self, shape: Any) -> None:
        self.experts.build(shape)

    def call(self, groups: Any) -> Any:
        return run_equal_groups(self.experts, groups)


def make_experts(shape: Shape, bank: type[MLPExperts]) -> MLPExperts:
    return bank(shape.experts, [shape.width] * shape.layers, seed=1)


def make_variants(
    shape: Shape, names: list[str], planned: int | None = None
) -> Iterator[tuple[str, Any]]:
    """The built layer and the inputs of each variant.

    The gates of `"auto"` plan for `planned` experts per row, if given.
    """
    scores = make_scores(
        shape.routing, shape.rows, shape.experts, shape.k, shape.tasks
    )
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(shape.rows, shape.width)).astype("float32")
    pairs = count_pairs(scores, shape.k)
    for name in names:
        if name in ("limit", "matmul"):
            alike = shape._replace(experts=1) if name == "matmul" else shape
            layer = Limit(make_experts(alike, MLPExperts))
            group = -(-pairs // alike.experts)
            groups = rng.normal(size=(alike.experts, group, shape.width))
            inputs = [groups.astype("float32")]
        else:
            bank = WideExperts if name == "dense_wide" else MLPExperts
            layer = ScoredMixture(
                shape.experts,
                shape.k,
                shape.tasks,
                name.split("_")[0],
                make_experts(shape, bank),
                planned if name == "auto" else None,
            )
            inputs = [rows, *scores]
        layer.build(*(array.shape for array in inputs))
        yield name, (layer, inputs)
