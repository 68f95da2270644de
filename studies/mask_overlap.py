"""Do similar inputs have similar masks? Figure 2 of Shaier et al."""

import itertools
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy.stats import spearmanr

from keras_moe.layers import ConditionallyOverlappingMLP
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.runs import Measures
from studies.runs import Settings

PAIRS = 500
INPUTS = 100
HIDDEN_LAYERS = 10
WIDTH = 512
NETWORKS = 10
KEEP_RATES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
# N(μ, 25), read as its variance and as its deviation.
DEVIATIONS = (5.0, 25.0)


def hidden_states(
    mlp: ConditionallyOverlappingMLP, inputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Follows inputs through the hidden layers.

    Args:
        mlp: The network.
        inputs: Float32 array `(rows, p)`.

    Returns:
        The masks and the masked activations of all hidden layers, side by
        side, `(rows, N_1 + ... + N_(L-1))` each; masks are 0 or 1.
    """
    symbol = keras.Input(inputs.shape[1:])
    outputs = routing = symbol
    masks, activations = [], []
    for dense, mask in zip(mlp.dense_layers[:-1], mlp.masks, strict=True):
        outputs, routing = mask(dense(outputs), routing)
        # Of what is kept, a projection is never exactly 0.
        masks.append(ops.cast(ops.not_equal(routing, 0), "float32"))
        activations.append(outputs)
    followed = keras.Model(
        symbol, [ops.concatenate(masks, -1), ops.concatenate(activations, -1)]
    )
    states = followed.predict(inputs, batch_size=256, verbose=0)
    return states[0], states[1]


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosine of each row of one array with that of the other.

    Of binary rows with as many ones it is the share of these in common.

    Example:
    >>> cosines(np.array([[1.0, 1, 0]]), np.array([[0.0, 1, 1]])).round(3)
    array([0.5])
    """
    products = (first * second).sum(axis=-1)
    norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.asarray(products / norms)


def draw_pairs(
    num_pairs: int, deviation: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws pairs of inputs, each with a mean of its own.

    Args:
        num_pairs: How many.
        deviation: Standard deviation of an entry from its input's mean, an
            integer drawn from 0 to 100.
        generator: What to draw with.

    Returns:
        Two float32 arrays `(num_pairs, 100)`.

    References:
        Shaier et al., section 4.1.1.
    """
    means = generator.integers(0, 101, size=(2, num_pairs, 1))
    noise = generator.normal(size=(2, num_pairs, INPUTS))
    first, second = (means + deviation * noise).astype("float32")
    return first, second


def measure_overlap(
    pairs: tuple[np.ndarray, np.ndarray],
    keep_rate: float,
    width: int,
    num_networks: int,
    seed: int,
) -> Measures:
    """Compares the similarity of inputs with that of masks and activations.

    Args:
        pairs: First and second inputs, `(pairs, inputs)` each.
        keep_rate: The share of the units that are active.
        width: Units of each of 10 hidden layers.
        num_networks: Random networks over which similarities are averaged.
        seed: Seed of the first of them.

    Returns:
        For masks and activations, the mean similarity of the fifth of the
        pairs whose inputs are least alike, and of the fifth that are most;
        and Spearman's rank correlation with the inputs' similarity, `None`
        where all masks are the same.
    """
    similarity = cosines(*pairs)
    both = np.concatenate(pairs)
    found: Any = []
    for network in range(num_networks):
        mlp = ConditionallyOverlappingMLP(
            [*[width] * HIDDEN_LAYERS, 1], keep_rate, seed=seed + network
        )
        states = hidden_states(mlp, both)
        found.append([cosines(*np.split(state, 2)) for state in states])
    measures: dict[str, float | None] = {}
    fifths = np.array_split(np.argsort(similarity), 5)
    for name, overlap in zip(
        ("masks", "activations"), np.mean(found, axis=0), strict=True
    ):
        measures[f"{name}: least alike"] = float(overlap[fifths[0]].mean())
        measures[f"{name}: most alike"] = float(overlap[fifths[-1]].mean())
        is_constant = bool(np.ptp(overlap) < 1e-3)
        measures[f"{name}: correlation"] = (
            None if is_constant else float(spearmanr(similarity, overlap)[0])
        )
    return measures


def overlap_study(options: Options) -> Study:
    """Figure 2: masks and activations over the similarity of inputs."""
    networks = options.networks or NETWORKS
    num_pairs = options.most_rows or PAIRS
    settings = itertools.product(
        DEVIATIONS,
        options.keep_rates or KEEP_RATES,
        options.widths or [WIDTH],
        range(options.seeds),
    )
    names = ("deviation", "keep rate", "width", "seed")
    plan: list[Settings] = [
        {
            "figure": "2",
            **dict(zip(names, values, strict=True)),
            "networks": networks,
            "pairs": num_pairs,
        }
        for values in settings
    ]

    def run(settings: Settings) -> Measures:
        seed: Any = settings["seed"]
        deviation: Any = settings["deviation"]
        keep_rate: Any = settings["keep rate"]
        width: Any = settings["width"]
        generator = np.random.default_rng(seed)
        pairs = draw_pairs(num_pairs, deviation, generator)
        first = 1000 * seed
        return measure_overlap(pairs, keep_rate, width, networks, first)

    measures = [
        f"{what}: {which}"
        for what in ("masks", "activations")
        for which in ("least alike", "most alike", "correlation")
    ]
    return Study(
        "Similarity of masks and activations over that of inputs",
        plan,
        run,
        by=["deviation", "keep rate", "width"],
        digits=dict.fromkeys(measures, 3),
        notes=[
            *options.differing(
                {
                    "networks": NETWORKS,
                    "widths": [WIDTH],
                    "most_rows": PAIRS,
                    "seeds": options.seeds,
                }
            ),
            "all pairs go through the same networks (published: networks of "
            "their own for each pair)",
        ],
    )
