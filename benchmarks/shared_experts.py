"""Times shared experts beside the routed ones, and among them.

    KERAS_BACKEND=torch python benchmarks/shared_experts.py

Prints one JSON line for every combination of the arguments: CPU milliseconds,
medians of interleaved calls in one process, of an `MMoE` with a `TopKGate`, k =
2, and one layer of 256 units,

    none      without shared experts
    beside    `shared_experts=`: all rows by a call of their own
    among     more experts of the one bank, which each row chooses, with weight
              1: groups of the same grouped matmul
    joined    likewise, of two banks with weights of their own, as models have
              them, put together in each call

and how many times as long as `beside` each takes.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops
from report import report
from routing_scores import make_scores
from side_by_side import compile_layer
from side_by_side import medians

from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate

WIDTH, K = 256, 2


class WithShared(Gate):
    """A gate that gives some more experts the weight 1 for every row."""

    always_sparse = True

    def __init__(self, gate: TopKGate, shared: int) -> None:
        super().__init__(gate.num_experts + shared, k=K + shared)
        self.gate = gate

    def build(self, shape: Any) -> None:
        self.gate.build(shape)

    def compute_weights(self, inputs: Any, training: Any, mask: Any) -> Any:
        weights = self.gate(inputs, training=training, mask=mask)
        shared = self.num_experts - self.gate.num_experts
        ones = ops.ones((ops.shape(weights)[0], shared))
        return ops.concatenate([weights, ones], axis=-1)


class JoinedExperts(MLPExperts):
    """The experts of two banks as one."""

    def __init__(self, *banks: MLPExperts) -> None:
        super().__init__(sum(bank.num_experts for bank in banks), WIDTH)
        self.banks = list(banks)

    def build(self, shape: Any) -> None:
        for bank in self.banks:
            bank.build(shape)

    @property
    def kernels(self) -> Any:  # type: ignore[override]
        return [ops.concatenate([bank.kernels[0] for bank in self.banks])]

    @property
    def biases(self) -> Any:  # type: ignore[override]
        return [ops.concatenate([bank.biases[0] for bank in self.banks])]


class ScoredMixture(keras.layers.Layer):
    """A mixture whose gate is given its scores."""

    def __init__(self, mixture: MMoE) -> None:
        super().__init__()
        self.mixture = mixture

    def build(self, inputs: Any, scores: Any) -> None:
        self.mixture.build(inputs, [scores])

    def call(self, inputs: Any, scores: Any) -> Any:
        return self.mixture(inputs, gate_inputs=[scores])


def make_mixtures(n: int, shared: int) -> Iterator[tuple[str, MMoE]]:
    def gate() -> TopKGate:
        return TopKGate(n, K, use_bias=False, kernel_initializer="identity")

    def experts(count: int) -> MLPExperts:
        return MLPExperts(count, WIDTH, seed=count)

    yield "none", MMoE([gate()], experts(n))
    yield "beside", MMoE([gate()], experts(n), shared_experts=experts(shared))
    yield "among", MMoE([WithShared(gate(), shared)], experts(n + shared))
    joined = JoinedExperts(experts(n), experts(shared))
    yield "joined", MMoE([WithShared(gate(), shared)], joined)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    integers: Any = {"type": int, "nargs": "+"}
    parser.add_argument("--rows", default=[512, 4096], **integers)
    parser.add_argument("--experts", default=[16, 64], **integers)
    parser.add_argument("--shared", default=[1, 2], **integers)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    for rows, n, shared in itertools.product(
        options.rows, options.experts, options.shared
    ):
        rng = np.random.default_rng(1)
        inputs = [
            rng.normal(size=(rows, WIDTH)).astype("float32"),
            *make_scores("balanced", rows, n, K, num_tasks=1),
        ]
        steps = {}
        for name, mixture in make_mixtures(n, shared):
            layer = ScoredMixture(mixture)
            layer.build(*(array.shape for array in inputs))
            steps[name] = compile_layer(layer, inputs)
        fields: dict[str, Any] = {}
        for step in ("forward", "forward_backward"):
            functions = {name: steps[name][step] for name in steps}
            times = medians(functions, options.runs, time.process_time)
            fields[f"{step}_ms"] = {n: round(t, 2) for n, t in times.items()}
            fields[f"{step}_times_beside"] = {
                name: round(ms / times["beside"], 2)
                for name, ms in times.items()
            }
        report(rows=rows, experts=n, shared=shared, **fields)


if __name__ == "__main__":
    main()
