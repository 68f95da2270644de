"""Times dense against sparse execution of one mixture, in one process.

    KERAS_BACKEND=tensorflow python benchmarks/layer_execution.py

Prints one JSON line per (n, k, rows): medians in milliseconds of interleaved
runs, forward and forward + backward (gradients of the inputs and of all
weights), and their ratio. TensorFlow runs in graph mode (`--jit`: XLA), JAX
under jit, PyTorch eagerly.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate

Function = Callable[[], Any]


def make_mixture(
    execution: str, num_experts: int, k: int, width: int
) -> keras.layers.Layer:
    """A mixture that routes by the largest of its last inputs: balanced."""
    mixture = MoE(
        TopKGate(num_experts, k, seed=0),
        MLPExperts(num_experts, width, seed=1),
        execution=execution,
    )
    mixture.build((None, width))
    return mixture


def compile_tensorflow(
    mixture: keras.layers.Layer, x: np.ndarray, jit: bool
) -> tuple[Function, Function]:
    import tensorflow as tf

    inputs = tf.constant(x)
    weights = [weight.value for weight in mixture.trainable_variables]

    @tf.function(jit_compile=jit)
    def forward() -> Any:
        return mixture(inputs)

    @tf.function(jit_compile=jit)
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(mixture(inputs)))
        return tape.gradient(loss, [inputs, *weights])

    return (
        lambda: forward().numpy(),
        lambda: [np.asarray(tf.convert_to_tensor(g)) for g in gradients()],
    )


def compile_jax(
    mixture: keras.layers.Layer, x: np.ndarray, jit: bool
) -> tuple[Function, Function]:
    import jax

    inputs = jax.numpy.asarray(x)
    weights = [weight.value for weight in mixture.trainable_variables]
    rest = [weight.value for weight in mixture.non_trainable_variables]

    def output(values: Any, batch: Any) -> Any:
        return mixture.stateless_call(values, rest, batch)[0]

    forward = jax.jit(output)
    gradients = jax.jit(
        jax.grad(lambda v, b: ops.sum(ops.square(output(v, b))), (0, 1))
    )
    return (
        lambda: jax.block_until_ready(forward(weights, inputs)),
        lambda: jax.block_until_ready(gradients(weights, inputs)),
    )


def compile_torch(
    mixture: keras.layers.Layer, x: np.ndarray, jit: bool
) -> tuple[Function, Function]:
    import torch

    inputs = torch.tensor(x, requires_grad=True)
    weights = [weight.value for weight in mixture.trainable_variables]

    def forward() -> Any:
        with torch.no_grad():
            return mixture(inputs)

    def gradients() -> Any:
        loss = torch.sum(torch.square(mixture(inputs)))
        return torch.autograd.grad(loss, [inputs, *weights])

    return forward, gradients


COMPILE = {
    "tensorflow": compile_tensorflow,
    "jax": compile_jax,
    "torch": compile_torch,
}


def interleaved_medians(
    functions: dict[str, Function], runs: int
) -> dict[str, float]:
    """Median milliseconds of each, taken in turn after two warm-up calls."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for run in range(runs + 2):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if run >= 2:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def measure(
    num_experts: int, k: int, rows: int, width: int, runs: int, jit: bool
) -> dict[str, Any]:
    """Times one shape."""
    backend = keras.backend.backend()
    x = np.random.default_rng(0).normal(size=(rows, width)).astype("float32")
    compiled = {
        execution: COMPILE[backend](
            make_mixture(execution, num_experts, k, width), x, jit
        )
        for execution in ("dense", "sparse")
    }
    result: dict[str, Any] = {
        "backend": backend,
        "jit": jit or backend == "jax",
        "n": num_experts,
        "k": k,
        "rows": rows,
        "width": width,
    }
    for index, what in enumerate(("forward", "forward_backward")):
        medians = interleaved_medians(
            {name: pair[index] for name, pair in compiled.items()}, runs
        )
        result[what] = {
            "dense_ms": round(medians["dense"], 2),
            "sparse_ms": round(medians["sparse"], 2),
            "ratio": round(medians["dense"] / medians["sparse"], 2),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--k", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--jit", action="store_true")
    options = parser.parse_args()
    for shape in itertools.product(options.experts, options.k, options.rows):
        line = measure(*shape, options.width, options.runs, options.jit)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
