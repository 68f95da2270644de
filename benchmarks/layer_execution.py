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
            already in equal groups, one group per expert: no gate, nothing
            to sort, to gather or to put back

and how many times faster than dense, and slower than the limit, sparse is.
TensorFlow runs in graph mode (`--jit`: XLA), JAX under jit, PyTorch eagerly.
`--memory` measures the peak memory of a step instead, in a fresh process each.

Where there is a GPU or TPU, the shapes that count are larger:

    KERAS_BACKEND=jax python benchmarks/layer_execution.py --dtype bfloat16 \
        --rows 65536 --experts 16 64 --width 1024 4096
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
from typing import Any

import keras
from execution_variants import Shape
from execution_variants import make_variants
from report import report
from routing_scores import ROUTINGS
from side_by_side import compile_layer
from side_by_side import medians

STEPS = ("forward", "forward_backward")


def measure_time(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    names = ["sparse", "auto", "limit", "matmul"]
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
    result["share_of_matmul"] = round(times["matmul"] / sparse, 2)
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
    for shape in itertools.starmap(Shape, itertools.product(*grid)):
        if shape.k > shape.experts:
            continue
        if options.peak_of:
            print_peak(shape, options)
            continue
        measure = measure_memory if options.memory else measure_time
        report(
            jit=options.jit or keras.backend.backend() == "jax",
            dtype=options.dtype,
            **shape._asdict(),
            **measure(shape, options),
        )


if __name__ == "__main__":
    main()
