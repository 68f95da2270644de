"""Predicts the time and memory of a training step on many devices.

    python benchmarks/scaling_model.py
    export KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=4
    python benchmarks/scaling_model.py --check

Without --check, one JSON line for each machine, number of devices and way to
divide the experts: milliseconds a step, and what each device holds. With it,
the same model is held against `scaling.py` on the devices at hand, in CPU
milliseconds of all of them: it gets the step of one device and what a byte
costs in an all-reduce and in an all-to-all alone, and predicts 2 and 4.

docs/scaling.md says what the model takes in and what it leaves out.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

FLOAT = 4  # Bytes.
# Reads and writes of an Adam step for each weight: the gradient, the weight
# and both moments are read, all but the gradient are written.
ADAM_PASSES = 7


class Machine(NamedTuple):
    """What a device of a kind can do, as published.

    Attributes:
        flops: Multiply-adds count as two, a second, bfloat16.
        memory_rate: Bytes a second.
        network_rate: Bytes a second that a device sends to others.
        memory: Bytes.
        efficiency: Which part of `flops` grouped matmuls reach.
    """

    flops: float
    memory_rate: float
    network_rate: float
    memory: float
    efficiency: float = 0.5


# Of both networks, one direction of the published sum of both.
MACHINES = {
    # NVIDIA H100 SXM data sheet; 400 Gb/s of InfiniBand for each.
    "h100": Machine(989e12, 3.35e12, 50e9, 80e9),
    # cloud.google.com/tpu/docs/v5e
    "tpu-v5e": Machine(197e12, 819e9, 200e9, 16e9),
}


class Workload(NamedTuple):
    """A model and what a device gets of a batch."""

    rows: int = 8192
    width: int = 1024
    units: int = 1024
    num_experts: int = 256
    k: int = 2
    num_tasks: int = 2
    num_ids: float = 1e9
    embedding: int = 64
    lookups: int = 20
    slots: int = 1  # Of the tables' optimizer, as large as a row: lazy Adam 2.

    @property
    def expert_weights(self) -> int:
        return self.num_experts * (self.width + 1) * self.units


class Traffic(NamedTuple):
    """Bytes that a device sends in a step."""

    reduced: float
    exchanged: float
    tables: float


def traffic(load: Workload, devices: int, split: bool) -> Traffic:
    """What a device sends for the experts and for the tables.

    Args:
        load: The model and a device's rows.
        devices: How many there are.
        split: Whether they divide the experts.
    """
    share = (devices - 1) / devices
    # Each device looks up, of the rows that all devices want, those it has,
    # and hands the sums around; the gradients are gathered on each.
    wanted = devices * load.rows * load.lookups * (load.embedding + 1) * FLOAT
    tables = 2 * share * wanted
    if not split:
        return Traffic(2 * share * load.expert_weights * FLOAT, 0.0, tables)
    rows = 1 - (1 - 1 / devices) ** (load.k * load.num_tasks)
    sums = load.num_tasks * (1 - (1 - 1 / devices) ** load.k)
    values = devices * load.rows * (rows * load.width + sums * load.units)
    return Traffic(0.0, 2 * share * values * FLOAT, tables)


def predict(
    load: Workload, machine: Machine, devices: int, split: bool
) -> dict[str, float]:
    """Milliseconds of the parts of a step, and gigabytes of a device.

    Nothing overlaps: what is computed while others are waited for makes a
    step shorter, what waits for the slowest device makes it longer.
    """
    pairs = load.rows * load.k * load.num_tasks
    # Forward once, backward twice as much.
    experts = 6 * pairs * load.width * load.units / machine.flops
    own = load.expert_weights / (devices if split else 1)
    looked_up = load.rows * load.lookups * load.embedding * (2 + load.slots)
    sent = traffic(load, devices, split)
    held = own * 3 + load.num_ids * load.embedding * (1 + load.slots) / devices
    parts = {
        "experts": experts / machine.efficiency,
        "adam": own * ADAM_PASSES * FLOAT / machine.memory_rate,
        "lookups": 2 * looked_up * FLOAT / machine.memory_rate,
        "gradients": sent.reduced / machine.network_rate,
        "exchange": sent.exchanged / machine.network_rate,
        "tables": sent.tables / machine.network_rate,
    }
    step = sum(parts.values())
    return {
        **{f"{name}_ms": round(1e3 * part, 2) for name, part in parts.items()},
        "step_ms": round(1e3 * step, 2),
        "million_rows_a_second": round(devices * load.rows / step / 1e6, 2),
        "held_gb": round(held * FLOAT / 1e9, 1),
        "fits": held * FLOAT < machine.memory,
    }


def predictions(load: Workload) -> Iterator[dict[str, Any]]:
    for name, machine in MACHINES.items():
        for devices in (8, 32, 128, 1024):
            for split in (False, True):
                yield {
                    "machine": name,
                    "devices": devices,
                    "experts": "split" if split else "on each",
                    **predict(load, machine, devices, split),
                }


def check(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Predicted and measured CPU milliseconds of all devices together."""
    import scaling

    several = [number for number in options.devices if number > 1]
    seconds = scaling.bytes_cost(several, options.runs)
    steps = {
        (variant, devices): scaling.make_step(
            variant, options.experts, devices, options
        )
        for variant in ("sparse", "experts")
        for devices in (1, *options.devices)
    }
    times = scaling.cpu_and_wall_times(
        {key: step.run for key, step in steps.items()}, options.runs
    )
    for (variant, devices), step in steps.items():
        first, _ = times[variant, 1]
        measured, _ = times[variant, devices]
        sent = devices * 1024 * step.sent_kb
        predicted = first
        if devices > 1:
            operation = "all-reduce" if variant == "sparse" else "all-to-all"
            predicted += 1e3 * sent * seconds[operation, devices]
        yield {
            "variant": variant,
            "devices": devices,
            "predicted_cpu_ms": round(predicted, 1),
            "measured_cpu_ms": round(measured, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--devices", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    for line in check(options) if options.check else predictions(Workload()):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
