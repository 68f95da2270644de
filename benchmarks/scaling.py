"""CPU time and traffic of a mixture's step on several devices.

    export KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=4
    python benchmarks/scaling.py --devices 1 2 4
    python benchmarks/scaling.py --devices 4 --experts 4 16 64 256

The devices are JAX's virtual ones of the CPU, under `keras.distribution`. A
batch has as many rows on any number of them, so that a step should take as
much CPU time on all together as on one. Prints one JSON line for each number
of experts and of devices: medians in milliseconds of interleaved runs, forward
and backward (gradients of the rows, the experts and the gates), of

    sparse       `execution="sparse"`, where each device runs its own rows
    experts      the same, where each device has its share of the experts
    partitioner  the same program, split by XLA alone
    dense        `execution="dense"`

how many times the CPU time of the first number of devices that is, and for the
first two

    sent_kb      what each device sends in a step, by the sizes in the compiled
                 program: an all-reduce of n bytes over g devices sends
                 2 n (g - 1) / g, an all-to-all n (g - 1) / g
    least_kb     what it would have to send at least: gradients of the weights
                 that others have, too; rows to each device that has experts
                 for them, one sum back for each task, and both in the
                 backward pass
"""

import argparse
import re
import resource
import time
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from math import prod
from statistics import median
from typing import Any
from typing import NamedTuple

import jax
import keras
import numpy as np
from keras import ops
from report import report

from keras_moe.distribution import ExpertParallel
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate

VARIANTS = ("sparse", "experts", "partitioner", "dense")
# Those whose traffic is ours.
EXACT = ("sparse", "experts")
NUM_TASKS = 2


class Step(NamedTuple):
    """A compiled step.

    Attributes:
        run: Runs it, and waits until it is done.
        sent_kb: What each device sends.
        least_kb: What it would have to send at least.
    """

    run: Callable[[], None]
    sent_kb: float
    least_kb: float


def make_step(
    variant: str, num_experts: int, num_devices: int, options: Any
) -> Step:
    """Compiles a step of a mixture."""
    devices = keras.distribution.list_devices()
    if num_devices > len(devices):
        raise SystemExit(
            f"--devices must be at most {len(devices)}: set XLA_FLAGS as the "
            f"first lines of this script say. Received: {num_devices}"
        )
    distribution = _distribution(variant, devices[:num_devices])
    keras.utils.set_random_seed(0)
    with distribution.scope():
        mixture = MMoE(
            [TopKGate(num_experts, options.k) for _ in range(NUM_TASKS)],
            MLPExperts(num_experts, options.width),
            "dense" if variant == "dense" else "sparse",
        )
        mixture.build((None, options.width))
    arguments = _arguments(mixture, distribution, options.rows)
    # A mixture that sees no distribution leaves all to the partitioner.
    hidden = variant == "partitioner"
    with nullcontext() if hidden else distribution.scope():
        step = _gradients(mixture).lower(*arguments).compile()
    return Step(
        partial(_run_and_wait, step, *arguments),
        sent_bytes(step.as_text(), num_devices) / 1024,
        least_bytes(variant, mixture, arguments[1], num_devices) / 1024,
    )


def _distribution(variant: str, devices: list[str]) -> Any:
    if variant != "experts":
        return keras.distribution.DataParallel(devices=devices)
    mesh = keras.distribution.DeviceMesh((len(devices),), ["experts"], devices)
    return ExpertParallel(mesh)


def _arguments(mixture: MMoE, distribution: Any, num_rows: int) -> Any:
    """Weights, where they lie, and rows, split over the devices."""
    weights = [v.value for v in mixture.trainable_variables]
    shape = (num_rows, mixture.experts.kernels[0].shape[1])
    rows = np.random.default_rng(0).normal(size=shape).astype("float32")
    layout = distribution.get_data_layout(shape).backend_layout
    return weights, jax.device_put(rows, layout)


def sent_bytes(program: str, num_devices: int) -> float:
    """What each device sends in a step, but where a batch fits no exchange."""
    share = (num_devices - 1) / num_devices
    shares = {"all-reduce": 2 * share, "all-to-all": share}
    return sum(
        shares[operation] * _num_bytes(shapes)
        for shapes, operation in re.findall(
            r"= (.*) (all-reduce|all-to-all)(?:-start)?\(", program
        )
    )


def _num_bytes(shapes: str) -> int:
    """Of shapes as in `(f32[2,3]{1,0}, pred[])`."""
    return sum(
        prod(map(int, filter(None, sizes.split(","))))
        * (1 if kind == "pred" else int(re.sub(r"\D", "", kind)) // 8)
        for kind, sizes in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shapes)
    )


def least_bytes(
    variant: str, mixture: MMoE, rows: Any, num_devices: int
) -> float:
    """What each device has to send: float32 numbers."""
    gates, experts = mixture.gates, mixture.experts
    everywhere = [w for gate in gates for w in gate.trainable_variables]
    moved = 0
    if variant == "experts":
        num_rows, width = rows.shape
        shape = (num_rows, num_devices, -1)
        wanted = np.stack(  # (N, T, G): whether a device has experts for them.
            [np.reshape(gate(rows), shape).any(axis=2) for gate in gates], 1
        )
        own = np.arange(num_rows) * num_devices // num_rows
        wanted[np.arange(num_rows), :, own] = False
        num_sums, num_sent = wanted.sum(), wanted.any(axis=1).sum()
        values = num_sent * width + num_sums * experts.units[-1]
        moved = 2 * values / num_devices  # Forward and backward.
    else:
        everywhere += experts.trainable_variables
    share = (num_devices - 1) / num_devices
    reduced = 2 * share * sum(prod(weight.shape) for weight in everywhere)
    return 4 * (reduced + moved)


def _gradients(mixture: MMoE) -> Any:
    def loss(weights: Any, rows: Any) -> Any:
        outputs, _ = mixture.stateless_call(weights, [], rows)
        return sum(ops.sum(ops.square(output)) for output in outputs)

    return jax.jit(jax.grad(loss, (0, 1)))


def cpu_and_wall_times(
    steps: dict[Any, Callable[[], None]], runs: int
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


def bytes_cost(
    numbers_of_devices: Sequence[int], runs: int
) -> dict[tuple[str, int], float]:
    """CPU seconds, of all devices, for a byte that one of them sends.

    Of each operation and number of devices, with 16 MiB on each device.
    """
    operations = {
        "all-reduce": partial(jax.lax.psum, axis_name="rows"),
        "all-to-all": partial(
            jax.lax.all_to_all,
            axis_name="rows",
            split_axis=0,
            concat_axis=0,
            tiled=True,
        ),
    }
    steps, sent = {}, {}
    for name, operation in operations.items():
        for number in numbers_of_devices:
            mesh = jax.make_mesh((number,), ("rows",))
            rows = jax.sharding.PartitionSpec("rows")
            run = jax.jit(
                jax.shard_map(
                    operation,
                    mesh=mesh,
                    in_specs=rows,
                    out_specs=rows,
                    check_vma=False,
                )
            )
            values = jax.device_put(
                np.ones((number * 16 * number, 2**18 // number), "float32"),
                jax.sharding.NamedSharding(mesh, rows),
            )
            step = run.lower(values).compile()
            sent[name, number] = number * sent_bytes(step.as_text(), number)
            steps[name, number] = partial(_run_and_wait, step, values)
    times = cpu_and_wall_times(steps, runs)
    return {key: times[key][0] / 1e3 / sent[key] for key in steps}


def _run_and_wait(step: Callable[..., Any], *arguments: Any) -> None:
    jax.block_until_ready(step(*arguments))


def _cpu_seconds() -> float:
    """CPU time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--experts", type=int, nargs="+", default=[16])
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=VARIANTS
    )
    options = parser.parse_args()
    for num_experts in options.experts:
        steps = {
            (variant, number): make_step(variant, num_experts, number, options)
            for number in options.devices
            for variant in options.variants
        }
        runs = {key: step.run for key, step in steps.items()}
        times = cpu_and_wall_times(runs, options.runs)
        for number in options.devices:
            line: dict[str, Any] = {}
            for variant in options.variants:
                step = steps[variant, number]
                cpu, wall = times[variant, number]
                first, _ = times[variant, options.devices[0]]
                line[f"{variant}_cpu_ms"] = round(cpu, 1)
                line[f"{variant}_wall_ms"] = round(wall, 1)
                line[f"{variant}_times_the_first"] = round(cpu / first, 2)
                if variant in EXACT:
                    line[f"{variant}_sent_kb"] = round(step.sent_kb)
                    line[f"{variant}_least_kb"] = round(step.least_kb)
            report(
                devices=number,
                rows=options.rows,
                experts=num_experts,
                k=options.k,
                width=options.width,
                **line,
            )


if __name__ == "__main__":
    main()
