"""Where the milliseconds of the ranker's training step go.

    KERAS_BACKEND=tensorflow python benchmarks/step_profile.py
    KERAS_BACKEND=jax python benchmarks/step_profile.py

Prints one JSON line for every (execution, n, batch size): milliseconds a step,
under the profiler of TensorFlow or JAX, by the part of the model that an
operation is of, and by the kind of operation. An operation lasts until all
threads that share it are done, and two may run at a time: on two cores the
parts add up to up to twice the step. Time within an operation that it waits for
others inside of it, as a loop does, is theirs.

On TensorFlow an operation is one of the graph, on JAX an instruction of the
program that XLA made, mostly a fusion of several; it is said to be of the part
that XLA names for it.
"""

import argparse
import atexit
import itertools
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What XLA compiles is dumped: only there stands which part it is of.
DUMP = tempfile.TemporaryDirectory()
atexit.register(DUMP.cleanup)
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        f"--xla_dump_to={DUMP.name}",
        "--xla_dump_hlo_as_text",
        "--xla_dump_hlo_module_re=.*train_step.*",
    ]
)
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)  # To compile is to dump.

import keras  # noqa: E402
from ranker_step import make_epoch  # noqa: E402
from ranker_step import make_model  # noqa: E402
from report import report  # noqa: E402
from side_by_side import Function  # noqa: E402

# The first one that is found in the name of an operation, by its pattern.
PARTS = {
    "optimizer": r"adam|optimizer|ApplyAdam",
    "gates": r"_gate",
    "dropout": r"dropout",
    "experts": r"mlp_experts|equal_groups",
    "mixture": r"m_mo_e",
    "embeddings": r"embedding",
    "heads": r"sequential|dense",
    "input": r"Iterator",
}

Event = tuple[float, float, str]


def profile(epoch: Function) -> list[list[Event]]:
    """For each thread the start, end and name of what it did, in ms."""
    backend = keras.backend.backend()
    with tempfile.TemporaryDirectory() as folder:
        if backend == "tensorflow":
            import tensorflow as tf

            with tf.profiler.experimental.Profile(folder):
                epoch()
        else:
            import jax

            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0
            with jax.profiler.trace(folder, profiler_options=options):
                epoch()
        (file,) = Path(folder).rglob("*.xplane.pb")
        return read_threads(file)


def read_threads(file: Path) -> list[list[Event]]:
    from jax.profiler import ProfileData  # It reads those of TensorFlow, too.

    return [
        [
            (event.start_ns / 1e6, event.end_ns / 1e6, event.name)
            for event in line.events
        ]
        for plane in ProfileData.from_file(str(file)).planes
        if plane.name == "/host:CPU"
        for line in plane.lines
    ]


def own_times(events: Iterable[Event]) -> Counter[str]:
    """The time of each name on one thread, without what lies within it."""
    times: Counter[str] = Counter()
    open_events: list[Event] = []
    for start, end, name in sorted(events, key=lambda e: (e[0], -e[1])):
        while open_events and open_events[-1][1] <= start:
            open_events.pop()
        if open_events:
            times[open_events[-1][2]] -= min(end, open_events[-1][1]) - start
        times[name] += end - start
        open_events.append((start, end, name))
    return times


def operations(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """For the names that are operations, what to find a part in, and a kind."""
    if keras.backend.backend() == "tensorflow":
        # Such as "adam/Square_6:Square".
        found = {name: name.rpartition(":") for name in names}
        return {
            name: (name, kind)
            for name, (path, colon, kind) in found.items()
            if colon and not path.endswith(":") and kind.isidentifier()
        }
    paths = hlo_paths()
    return {
        name: (paths[name], re.sub(r"[.\d]+$", "", name))
        for name in names
        if name in paths
    }


def programs() -> list[Path]:
    return list(Path(DUMP.name).glob("*after_optimizations.txt"))


def hlo_paths() -> dict[str, str]:
    """By the name of an instruction, the path of scopes that it is of."""
    paths = {}
    for file in programs():
        for line in file.read_text().splitlines():
            named = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line)
            path = re.search(r'op_name="([^"]*)"', line)
            if named:
                paths[named[1]] = path[1] if path else ""
    return paths


def part_of(path: str) -> str:
    for part, pattern in PARTS.items():
        if re.search(pattern, path):
            return part
    return "rest"


def measure(epoch: Function, steps: int) -> dict[str, Any]:
    for file in programs():
        file.unlink()  # Another model's instructions have the same names.
    epoch()
    start = time.perf_counter()
    epoch()
    wall = time.perf_counter() - start
    totals: Counter[str] = Counter()
    for events in profile(epoch):
        totals.update(own_times(events))
    by_part: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    for name, (path, kind) in operations(totals).items():
        by_part[part_of(path)] += totals[name] / steps
        by_kind[kind] += totals[name] / steps
    return {
        "step_ms": round(1e3 * wall / steps, 2),
        "parts_ms": _largest(by_part, len(PARTS) + 1),
        "operations_ms": _largest(by_kind, 15),
    }


def _largest(times: Counter[str], count: int) -> dict[str, float]:
    return {name: round(t, 2) for name, t in times.most_common(count)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gate", default="top-k")
    parser.add_argument("--experts", default=[16, 64], type=int, nargs="+")
    parser.add_argument("--batch", default=[512], type=int, nargs="+")
    parser.add_argument(
        "--execution", default=["sparse", "limit_one_by_one"], nargs="+"
    )
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if keras.backend.backend() == "torch":
        raise SystemExit("a profile is of TensorFlow or JAX")
    for execution, n, batch in itertools.product(
        options.execution, options.experts, options.batch
    ):
        model, _ = make_model(execution, options.gate, n, batch)
        epoch = make_epoch(model, batch, options.steps)
        report(
            execution=execution,
            n=n,
            batch=batch,
            **measure(epoch, options.steps),
        )


if __name__ == "__main__":
    main()
