"""CPU time of a mixture's step on several devices, added up over them.

    export KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=4
    python benchmarks/scaling.py --devices 1 2 4

The devices are JAX's virtual ones of the CPU, under `DataParallel` of
`keras.distribution`. A batch has as many rows on any number of them, so that a
step should take as much CPU time on all together as on one. Prints one JSON
line for each number: medians in milliseconds of interleaved runs, forward and
backward (gradients of the rows, the experts and the gates), of

    sparse       `execution="sparse"`, where each device runs its own rows
    partitioner  the same program, split by XLA alone
    dense        `execution="dense"`

and how many times the CPU time of the first number of devices that is.
"""

import argparse
import resource
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from typing import Any

import jax
import keras
import numpy as np
from keras import ops
from report import report

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate

VARIANTS = ("sparse", "partitioner", "dense")
NUM_TASKS = 2

Step = Callable[[], None]


def make_step(
    variant: str, num_devices: int, options: argparse.Namespace
) -> Step:
    """Compiles a step, which waits until it is done."""
    devices = keras.distribution.list_devices()
    if num_devices > len(devices):
        raise SystemExit(
            f"--devices must be at most {len(devices)}: set XLA_FLAGS as the "
            f"first lines of this script say. Received: {num_devices}"
        )
    distribution = keras.distribution.DataParallel(
        devices=devices[:num_devices]
    )
    keras.utils.set_random_seed(0)
    mixture = MMoE(
        [TopKGate(options.experts, options.k) for _ in range(NUM_TASKS)],
        MLPExperts(options.experts, options.width),
        "dense" if variant == "dense" else "sparse",
    )
    mixture.build((None, options.width))
    arguments = _arguments(mixture, distribution, options.rows)
    # A mixture that sees no distribution leaves all to the partitioner.
    hidden = variant == "partitioner"
    with nullcontext() if hidden else distribution.scope():
        step = _gradients(mixture).lower(*arguments).compile()
    return lambda: jax.block_until_ready(step(*arguments))


def _arguments(mixture: MMoE, distribution: Any, num_rows: int) -> Any:
    """Weights, on all devices, and rows, split over them."""
    mesh = distribution.device_mesh
    layout = keras.distribution.TensorLayout([], mesh).backend_layout
    weights = [v.value for v in mixture.trainable_variables]
    shape = (num_rows, mixture.experts.kernels[0].shape[1])
    rows = np.random.default_rng(0).normal(size=shape).astype("float32")
    return (
        jax.device_put(weights, layout),
        jax.device_put(
            rows, distribution.get_data_layout(shape).backend_layout
        ),
    )


def _gradients(mixture: MMoE) -> Any:
    def loss(weights: Any, rows: Any) -> Any:
        outputs, _ = mixture.stateless_call(weights, [], rows)
        return sum(ops.sum(ops.square(output)) for output in outputs)

    return jax.jit(jax.grad(loss, (0, 1)))


def cpu_and_wall_times(
    steps: dict[Any, Step], runs: int
) -> dict[Any, tuple[float, float]]:
    """Median milliseconds of each step; they take turns."""
    times: dict[Any, list[tuple[float, float]]] = {key: [] for key in steps}
    for step in steps.values():
        step()  # The first one is slower.
    for _ in range(runs):
        for key, step in steps.items():
            cpu, wall = _cpu_seconds(), time.perf_counter()
            step()
            cpu, wall = _cpu_seconds() - cpu, time.perf_counter() - wall
            times[key].append((1e3 * cpu, 1e3 * wall))
    return {
        key: tuple(map(median, zip(*of_step, strict=True)))
        for key, of_step in times.items()
    }


def _cpu_seconds() -> float:
    """CPU time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    steps = {
        (variant, number): make_step(variant, number, options)
        for number in options.devices
        for variant in VARIANTS
    }
    times = cpu_and_wall_times(steps, options.runs)
    for number in options.devices:
        line: dict[str, Any] = {}
        for variant in VARIANTS:
            cpu, wall = times[variant, number]
            first, _ = times[variant, options.devices[0]]
            line[f"{variant}_cpu_ms"] = round(cpu, 1)
            line[f"{variant}_wall_ms"] = round(wall, 1)
            line[f"{variant}_times_the_first"] = round(cpu / first, 2)
        report(
            devices=number,
            rows=options.rows,
            experts=options.experts,
            k=options.k,
            width=options.width,
            **line,
        )


if __name__ == "__main__":
    main()
