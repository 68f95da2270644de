"""Times dense, sparse and automatic execution of a mixture, side by side.

    KERAS_BACKEND=tensorflow python benchmarks/layer_execution.py \
        --rows 512 4096 --experts 16 32 --k 1 2

Prints one JSON line for every combination of the arguments: medians in
milliseconds of interleaved runs in one process, forward, and forward +
backward (gradients of the inputs, the experts and the gates), of

    dense   the faster of one batched einsum and one wide matmul
    sparse  `execution="sparse"`
    auto    `execution="auto"`
    limit   the experts on the same number of (row, expert) pairs, that lie
            already in equal groups, one group an expert: no gate, nothing
            to sort, to gather or to put back

and how many times faster than dense, and slower than the limit, sparse is.
TensorFlow runs in graph mode (`--jit`: XLA), JAX under jit, PyTorch eagerly.
`--memory` measures the peak memory of a step instead, in a fresh process each.
"""

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops
from routing_scores import ROUTINGS
from routing_scores import count_pairs
from routing_scores import make_scores
from side_by_side import compile_layer
from side_by_side import medians

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate

STEPS = ("forward", "forward_backward")


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
        self, inputs: Any, block_experts: Any = None, training: Any = None
    ) -> Any:
        experts, depth, units = self.kernels[0].shape
        kernel = ops.transpose(self.kernels[0], (1, 0, 2))
        kernel = ops.reshape(kernel, (depth, experts * units))
        outputs = ops.reshape(ops.matmul(inputs, kernel), (-1, experts, units))
        outputs = self.activation(outputs + self.biases[0])
        for kernel, bias in zip(self.kernels[1:], self.biases[1:], strict=True):
            outputs = ops.einsum("neh,ehu->neu", outputs, kernel) + bias
            outputs = self.activation(outputs)
        return outputs


class Mixture(keras.layers.Layer):
    """A mixture of which gates are told by scores how to route."""

    def __init__(self, shape: Shape, execution: str, experts: Any) -> None:
        super().__init__()
        gates = [
            TopKGate(
                shape.experts,
                shape.k,
                use_bias=False,
                kernel_initializer="identity",
            )
            for _ in range(shape.tasks)
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
        experts = self.experts
        for kernel, bias in zip(experts.kernels, experts.biases, strict=True):
            groups = ops.matmul(groups, kernel) + bias[:, None]
            groups = experts.activation(groups)
        return groups


def make_experts(shape: Shape, bank: type[MLPExperts]) -> MLPExperts:
    return bank(shape.experts, [shape.width] * shape.layers, seed=1)


def make_variants(shape: Shape, names: list[str]) -> Iterator[tuple[str, Any]]:
    """The built layer and the inputs of each variant."""
    scores = make_scores(
        shape.routing, shape.rows, shape.experts, shape.k, shape.tasks
    )
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(shape.rows, shape.width)).astype("float32")
    group = -(-count_pairs(scores, shape.k) // shape.experts)
    groups = rng.normal(size=(shape.experts, group, shape.width))
    for name in names:
        if name == "limit":
            layer = Limit(make_experts(shape, MLPExperts))
            inputs = [groups.astype("float32")]
        else:
            bank = WideExperts if name == "dense_wide" else MLPExperts
            layer = Mixture(
                shape, name.split("_")[0], make_experts(shape, bank)
            )
            inputs = [rows, *scores]
        layer.build(*(array.shape for array in inputs))
        yield name, (layer, inputs)


def measure_time(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    names = ["sparse", "auto", "limit"]
    if shape.dense_bytes() <= options.largest_dense * 2**30:
        names = ["dense_einsum", "dense_wide", *names]
    steps = {
        name: compile_layer(layer, inputs, options.jit)
        for name, (layer, inputs) in make_variants(shape, names)
    }
    return {
        step: _with_ratios(
            medians({name: steps[name][step] for name in names}, options.runs)
        )
        for step in STEPS
    }


def _with_ratios(times: dict[str, float]) -> dict[str, float]:
    result = {f"{name}_ms": round(time, 3) for name, time in times.items()}
    sparse = times["sparse"]
    if "dense_wide" in times:
        dense = min(times["dense_einsum"], times["dense_wide"])
        result["dense_ms"] = round(dense, 3)
        result["faster_than_dense"] = round(dense / sparse, 2)
        result["auto_to_better"] = round(times["auto"] / min(dense, sparse), 2)
    result["times_the_limit"] = round(sparse / times["limit"], 2)
    return result


def measure_memory(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """Peak MiB that each variant's step adds, each in its own process."""
    result: dict[str, Any] = {}
    for step, name in itertools.product(STEPS, ("dense", "sparse", "auto")):
        command = [sys.executable, __file__, *_arguments(shape, options)]
        command += ["--peak-of", name, step]
        output = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout
        result.setdefault(step, {})[f"{name}_mib"] = json.loads(output)
    return result


def _arguments(shape: Shape, options: argparse.Namespace) -> list[str]:
    pairs = [(f"--{key}", str(value)) for key, value in shape._asdict().items()]
    jit = ["--jit"] if options.jit else []
    return [*itertools.chain.from_iterable(pairs), *jit]


def print_peak(shape: Shape, options: argparse.Namespace) -> None:
    name, step = options.peak_of
    ((_, (layer, inputs)),) = make_variants(shape, [name])
    run = compile_layer(layer, inputs, options.jit)[step]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        run()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(round((after - before) / 1024))


def device_name() -> str:
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name())
    elif backend == "jax":
        import jax

        if jax.default_backend() != "cpu":
            return str(jax.devices()[0].device_kind)
    elif backend == "tensorflow":
        import tensorflow as tf

        for gpu in tf.config.list_physical_devices("GPU"):
            details = tf.config.experimental.get_device_details(gpu)
            return str(details.get("device_name", gpu.name))
    return f"{os.cpu_count()} cores, {platform.machine()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    integers: Any = {"type": int, "nargs": "+"}
    parser.add_argument("--rows", default=[512, 4096], **integers)
    parser.add_argument("--experts", default=[8, 16, 32], **integers)
    parser.add_argument("--k", default=[2], **integers)
    parser.add_argument("--tasks", default=[1], **integers)
    parser.add_argument("--width", default=[256], **integers)
    parser.add_argument("--layers", default=[1], **integers)
    parser.add_argument(
        "--routing", default=["balanced"], nargs="+", choices=ROUTINGS
    )
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--dtype", default="float32", help="a Keras policy")
    parser.add_argument(
        "--largest-dense",
        type=float,
        default=4.0,
        help="GiB of expert outputs above which dense is left out",
    )
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    keras.config.set_dtype_policy(options.dtype)
    grid = [getattr(options, axis) for axis in Shape._fields]
    backend = keras.backend.backend()
    for shape in itertools.starmap(Shape, itertools.product(*grid)):
        if shape.k > shape.experts:
            continue
        if options.peak_of:
            print_peak(shape, options)
            continue
        measure = measure_memory if options.memory else measure_time
        line = {
            "backend": backend,
            "jit": options.jit or backend == "jax",
            "device": device_name(),
            "dtype": options.dtype,
            **shape._asdict(),
            **measure(shape, options),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
