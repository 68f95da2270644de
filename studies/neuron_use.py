"""Is any unit never active? Figure 3 of Shaier et al."""

from typing import Any

import numpy as np

from keras_moe.layers import ConditionallyOverlappingMLP
from studies.image_data import ImageData
from studies.image_data import read_images
from studies.mask_overlap import hidden_states
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.runs import Measures
from studies.runs import Settings

NETWORKS = 1000
HIDDEN_LAYERS = 3  # With the output, the published 4 layers.
MOST_UNITS = 1000


def measure_use(
    rows: np.ndarray,
    widths: list[int],
    keep_rate: float,
    seed: int,
    second: np.ndarray | None = None,
) -> Measures:
    """Counts how often each unit of a random network is active.

    Args:
        rows: Float32 array `(rows, inputs)`.
        widths: Units of each hidden layer.
        keep_rate: The share of them that are active for a row.
        seed: Seed of the network.
        second: Optional float32 array `(more rows, inputs)` of other data.

    Returns:
        How many units there are, the percentage that no row activates, 100
        or 0 for a network that has such a unit or not, and the percentage of
        the rows that activate the least used unit, the median one and the
        most used one. With second data also the percentage of the units that
        no row of both activates.
    """
    mlp = ConditionallyOverlappingMLP([*widths, 1], keep_rate, seed=seed)
    use = hidden_states(mlp, rows)[0].mean(axis=0)
    measures: Measures = {
        "units": len(use),
        "dead units (%)": 100 * float((use == 0).mean()),
        "with dead units (%)": 100.0 * bool((use == 0).any()),
        "least used (%)": 100 * float(use.min()),
        "median use (%)": 100 * float(np.median(use)),
        "most used (%)": 100 * float(use.max()),
    }
    if second is None:
        return measures
    more = hidden_states(mlp, second)[0].max(axis=0)
    dead = 100 * float(((use == 0) & (more == 0)).mean())
    return {**measures, "dead on both (%)": dead}


def use_study(options: Options) -> Study:
    """Figure 3: how often units of random networks are active on CIFAR-10.

    Args:
        options: What is made smaller. With `second_data`, also how many are
            dead on CIFAR-100, too (section 4.1.2 of the paper).
    """
    folder = options.folder()
    networks = options.networks or NETWORKS
    most_units = max(options.widths or [MOST_UNITS])
    data = read_images("cifar-10", folder, options.most_rows)
    rows = _flat(data)
    second = None
    if options.second_data is not None:
        second = _flat(
            read_images("cifar-100", options.second_data, options.most_rows)
        )
    drawn = [
        {
            **_draw(network, most_units, len(rows)),
            "second rows": 0 if second is None else len(second),
        }
        for network in range(networks)
    ]
    plan = sorted(drawn, key=lambda settings: str(settings["sparsity"]))

    def run(settings: Settings) -> Measures:
        widths: Any = [settings[f"width {n + 1}"] for n in range(HIDDEN_LAYERS)]
        keep_rate: Any = settings["keep rate"]
        seed: Any = settings["seed"]
        return measure_use(rows, widths, keep_rate, seed, second)

    notes = options.differing(
        {
            "networks": NETWORKS,
            "widths": [MOST_UNITS],
            "seeds": options.seeds,
        }
    )
    if not data.is_published:
        notes.append(f"{len(rows)} images (published 50,000)")
    return Study(
        "How often units are active, over random networks",
        plan,
        run,
        by=["sparsity"],
        digits={
            "dead units (%)": 4,
            "dead on both (%)": 4,
            "with dead units (%)": 1,
            "least used (%)": 2,
            "median use (%)": 1,
            "most used (%)": 1,
        },
        notes=notes,
    )


def _flat(data: ImageData) -> np.ndarray:
    return data.train.reshape(len(data.train), -1)


def _draw(network: int, most_units: int, num_rows: int) -> Settings:
    """N ~ U(most / 10, most) units a layer, a share of U(0.05, 1) inactive."""
    generator = np.random.default_rng(network)
    widths = generator.integers(most_units // 10, most_units, HIDDEN_LAYERS)
    sparsity = float(generator.uniform(0.05, 1))
    third = int(3 * (sparsity - 0.05) / 0.95)
    return {
        "figure": "3",
        "seed": network,
        "sparsity": ("0.05 to 0.37", "0.37 to 0.68", "0.68 to 1")[third],
        "keep rate": 1 - sparsity,
        **{f"width {n + 1}": int(width) for n, width in enumerate(widths)},
        "rows": num_rows,
    }
