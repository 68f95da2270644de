"""Times a mixture with each gate and option beside one with `TopKGate`.

    KERAS_BACKEND=torch python benchmarks/gate_speed.py --experts 16 64 256

Prints a JSON line for every number of experts, and a Markdown table: CPU
milliseconds of `TopKGate`, and how many times as long the others take, each
forward at inference / forward + backward in training; in parentheses the
experts per row of the two. Medians of interleaved calls in one process. The
experts are MLPs of two layers, `execution="auto"`. The gates are new, but for
one call in training, from which some have their thresholds: those that become
sparse as they train still give weight to more experts than they will. `--gates`
measures some gates alone.
"""

import argparse
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from report import report
from side_by_side import compile_layer
from side_by_side import medians

from keras_moe import layers

BASE = "TopKGate"
# Whether each is in training, which comes first: thresholds are from it.
STEPS = {"forward_backward": True, "forward": False}

GATES: dict[str, Callable[[int, int], layers.Gate]] = {
    BASE: layers.TopKGate,
    "VMoEGate": layers.VMoEGate,
    "SwitchGate": layers.SwitchGate,
    "XMoEGate": layers.XMoEGate,
    "MOESARTGate": layers.MOESARTGate,
    "ExpertChoiceGate": lambda n, k: layers.ExpertChoiceGate(n, float(k)),
    "BudgetGate": lambda n, k: layers.BudgetGate(layers.SoftmaxGate(n), k),
    "HashGate": lambda n, k: layers.HashGate(n, num_buckets=1 << 16),
    "ConstantGate": lambda n, k: layers.ConstantGate(
        [1.0] * k + [0.0] * (n - k)
    ),
    "GroupedGate": lambda n, k: layers.GroupedGate(
        layers.TopKGate(2 * n, k), [[i, n + i] for i in range(n)]
    ),
    "PermutedGate": lambda n, k: layers.PermutedGate(layers.TopKGate(n, k)),
    "DSelectKGate": lambda n, k: layers.DSelectKGate(
        n, k, **layers.DSelectKGate.first_options(k)
    ),
    "COMETGate": lambda n, k: layers.COMETGate(
        n, k, **layers.COMETGate.first_options(k)
    ),
    "ReMoEGate": layers.ReMoEGate,
    "GumbelSoftmaxGate": lambda n, k: layers.GumbelSoftmaxGate(n),
    "SoftmaxGate": lambda n, k: layers.SoftmaxGate(n),
}


class InMode(keras.layers.Layer):
    """A mixture that is always called in training, or never.

    Attributes:
        gate_inputs: The ids that a `HashGate` routes by, or `None`.
    """

    def __init__(
        self, mixture: layers.MoE, training: bool, ids: np.ndarray
    ) -> None:
        super().__init__()
        self.mixture = mixture
        self.in_training = training
        by_id = isinstance(mixture.gate, layers.HashGate)
        self.gate_inputs = ids if by_id else None

    def build(self, shape: Any) -> None:
        """Nothing to build: the mixture is."""

    def call(self, inputs: Any) -> Any:
        return self.mixture(
            inputs, gate_inputs=self.gate_inputs, training=self.in_training
        )


def make_mixtures(
    n: int, k: int, width: int, gates: Sequence[str] | None = None
) -> dict[str, layers.MoE]:
    """A built mixture for each gate, and for each option of the experts.

    With `gates`, only for these, and `TopKGate`.
    """
    units = [width, width]
    plain = layers.MLPExperts(n, units, seed=1)
    plain.build((None, width))
    mixtures = {
        name: layers.MoE(make(n, k), layers.MLPExperts(n, units, seed=1))
        for name, make in GATES.items()
        if gates is None or name in (BASE, *gates)
    }
    if gates is not None:
        return mixtures
    mixtures["1 shared expert"] = layers.MoE(
        layers.TopKGate(n, k), plain, shared_experts=layers.MLPExperts(1, units)
    )
    mixtures["experts split in 2"] = layers.MoE(
        layers.TopKGate(2 * n, 2 * k), layers.MLPExperts(n, units, split=2)
    )
    mixtures["int8 experts"] = layers.MoE(
        layers.TopKGate(n, k), layers.QuantizedExperts.of(plain)
    )
    return mixtures


def measure(n: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Milliseconds and experts per row of each mixture, by step."""
    rng = np.random.default_rng(0)
    shape = (options.rows, options.width)
    inputs = rng.normal(size=shape).astype("float32")
    ids = np.arange(options.rows)
    mixtures = make_mixtures(n, options.k, options.width, options.gates)
    result: dict[str, dict[str, Any]] = {}
    modes: dict[str, dict[str, InMode]] = {step: {} for step in STEPS}
    for name, mixture in mixtures.items():
        for step, training in STEPS.items():
            modes[step][name] = InMode(mixture, training, ids)
            modes[step][name](inputs)
    for step, of_step in modes.items():
        functions = {
            name: compile_layer(mode, [inputs])[step]
            for name, mode in of_step.items()
        }
        result[step] = {
            "ms": medians(functions, options.runs, time.process_time),
            "experts_per_row": {
                name: experts_per_row(mode, inputs)
                for name, mode in of_step.items()
            },
        }
    return result


def experts_per_row(mode: InMode, inputs: np.ndarray) -> float:
    """Experts with weight, a mean over the rows."""
    given = inputs if mode.gate_inputs is None else mode.gate_inputs
    weights = mode.mixture.gate(
        ops.convert_to_tensor(given), training=mode.in_training
    )
    used = ops.convert_to_numpy(ops.cast(weights != 0, "float32"))
    return float(used.sum(axis=-1).mean())


def table(measured: dict[int, dict[str, dict[str, Any]]]) -> str:
    """The Markdown table of what `measure` returns by number of experts."""
    columns = [f"n = {n}" for n in measured]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    first, *_ = measured.values()
    for name in first["forward"]["ms"]:
        cells = [cell(name, steps) for steps in measured.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(name: str, measured: dict[str, dict[str, Any]]) -> str:
    steps = [measured["forward"], measured["forward_backward"]]
    times = [
        f"{step['ms'][name]:.1f} ms"
        if name == BASE
        else f"{step['ms'][name] / step['ms'][BASE]:.2f}"
        for step in steps
    ]
    experts = [f"{step['experts_per_row'][name]:.3g}" for step in steps]
    return f"{' / '.join(times)} ({' / '.join(experts)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gates", nargs="+", choices=GATES)
    options = parser.parse_args()
    measured = {}
    for n in options.experts:
        measured[n] = measure(n, options)
        report(
            experts=n,
            k=options.k,
            rows=options.rows,
            width=options.width,
            **measured[n],
        )
    print(table(measured))


if __name__ == "__main__":
    main()
