"""Measures how far the weights that MOESART draws are from the softmax.

    KERAS_BACKEND=torch python benchmarks/moesart_bias.py --out bias.png

The bias study of MOESART (supplement S3.1, figure S1): ||E[g~] - g||₂ for
uniform, random and exponentially decaying g and four ways to weigh the drawn
experts,

    i     g_i, whatever the count r_i,
    ii    r_i g_i,
    iii   r_i,
    3     r_z g_z for one drawn expert z, r_i / (k - 1) for the others,

each divided by the sum over the drawn experts. Prints one JSON line per (draws
with or without replacement, g, strategy, k) and, with `--out`, draws the
figure. The mean is over `--samples` draws, which add noise of their own: an
unbiased strategy measures `noise`, the root mean square of what they add.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.ops import adjusted_softmax
from keras_moe.ops import choose_one
from keras_moe.ops import draw_with_replacement
from keras_moe.ops import draw_without_replacement

Line = dict[str, Any]

DRAWS = {False: draw_without_replacement, True: draw_with_replacement}
STRATEGIES = ("i", "ii", "iii", "3")


def make_distributions(
    num_experts: int, decay: float, seed: int
) -> dict[str, np.ndarray]:
    """The three shapes of g: equal, uniform numbers, powers of `decay`."""
    shapes = {
        "uniform": np.ones(num_experts),
        "random": np.random.default_rng(seed).uniform(size=num_experts),
        "decaying": decay ** np.arange(num_experts),
    }
    return {name: shape / shape.sum() for name, shape in shapes.items()}


def weigh(strategy: str, logits: Any, counts: Any, k: int, seed: Any) -> Any:
    """The weights g~ of drawn experts."""
    drawn = counts > 0
    if strategy == "i":
        counts = ops.cast(drawn, counts.dtype)
    corrected = ops.full_like(drawn, strategy == "iii")
    if strategy == "3":
        corrected = ops.logical_not(choose_one(drawn, seed))
    return adjusted_softmax(logits, counts, corrected, k)


def measure(
    distributions: dict[str, np.ndarray],
    draw_counts: list[int],
    samples: int,
    seed: int,
) -> Iterator[Line]:
    """Yields the bias of every strategy on the same draws."""
    generator = keras.random.SeedGenerator(seed)
    for (name, g), k, (replacement, draw) in itertools.product(
        distributions.items(), draw_counts, DRAWS.items()
    ):
        logits = ops.tile(np.log(g).astype("float32")[None], (samples, 1))
        counts = draw(logits, k, generator)
        for strategy in STRATEGIES:
            weights = ops.convert_to_numpy(
                weigh(strategy, logits, counts, k, generator)
            ).astype("float64")
            variance = weights.var(axis=0) / samples
            yield {
                "replacement": replacement,
                "g": name,
                "strategy": strategy,
                "k": k,
                "bias": round(np.linalg.norm(weights.mean(axis=0) - g), 5),
                "noise": round(np.sqrt(variance.sum()), 5),
            }


def draw_figure(lines: list[Line], path: str) -> None:
    """Draws a panel per kind of draws and g, a line per strategy."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line["g"] for line in lines))
    figure = Figure(figsize=(11, 6), layout="constrained")
    panels = figure.subplots(len(DRAWS), len(names), sharex=True, sharey="col")
    for (replacement, name), axes in zip(
        itertools.product(DRAWS, names), panels.flat, strict=True
    ):
        for strategy, marker in zip(STRATEGIES, "osv^", strict=True):
            points = [
                (line["k"], line["bias"])
                for line in lines
                if (line["replacement"], line["g"], line["strategy"])
                == (replacement, name, strategy)
            ]
            axes.plot(
                *zip(*points, strict=True), marker, ls="-", label=strategy
            )
        kind = "with" if replacement else "without"
        axes.set_title(f"{name} g, {kind} replacement")
        axes.set_xlabel("k")
        axes.set_xticks(sorted({line["k"] for line in lines}))
        axes.set_ylabel("‖E[g̃] - g‖₂")
        axes.grid(alpha=0.3)
    for axes in panels.flat:  # Once all lines are drawn: the axes are shared.
        axes.set_ylim(bottom=0)
    panels[0, 0].legend(title="strategy")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--k", type=int, nargs="+", default=[2, 4, 6, 8])
    parser.add_argument("--decay", type=float, default=0.5)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="the figure's file, such as bias.png")
    options = parser.parse_args()
    distributions = make_distributions(
        options.experts, options.decay, options.seed
    )
    lines = []
    for line in measure(
        distributions, options.k, options.samples, options.seed
    ):
        print(json.dumps(line), flush=True)
        lines.append(line)
    if options.out:
        draw_figure(lines, options.out)


if __name__ == "__main__":
    main()
