"""How many experts tokens have (Zhou et al. 2022, figure 3)."""

from pathlib import Path

import numpy as np
import pandas as pd

# Bars of the distribution of experts a token; the last one counts all above.
MOST_COUNTED = 5


def distribution(counts: np.ndarray) -> dict[str, float]:
    """The share of tokens with 0, 1, 2, ... experts.

    Args:
        counts: Integer array, the experts of each token.

    Returns:
        The shares, by the number; that of 5 and more is `"5+"`.

    Example:
        >>> shares = distribution(np.array([0, 1, 1, 7]))
        >>> shares["1"], shares["5+"]
        (0.5, 0.25)
    """
    counted = np.bincount(
        np.minimum(counts, MOST_COUNTED), minlength=MOST_COUNTED + 1
    )
    names = [*map(str, range(MOST_COUNTED)), f"{MOST_COUNTED}+"]
    shares = counted / len(counts)
    return {
        name: float(share) for name, share in zip(names, shares, strict=True)
    }


def draw_distribution(results: pd.DataFrame, file: Path) -> None:
    """Draws the distribution of experts a token, as figure 3 of the paper.

    Bars are means over the seeds; on the left each expert takes its tokens of
    a batch, as in training, on the right those above its threshold.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    chosen = results[results["capacity"].notna()]
    names = list(distribution(np.zeros(1, int)))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind in zip(panels, ("batch ", ""), strict=True):
        groups = chosen.groupby(["model", "experts", "capacity"])
        width = 0.8 / max(groups.ngroups, 1)
        for number, (labels, rows) in enumerate(groups):
            model, experts, capacity = labels
            label = f"{model}, {experts} experts, c = {capacity:g}"
            shares = [
                100 * rows[f"{kind}share {name}"].mean() for name in names
            ]
            axes.bar(
                np.arange(len(names)) + number * width,
                shares,
                width,
                label=label,
                align="edge",
            )
        axes.set(
            title="By batch" if kind else "By threshold",
            xlabel="Experts of a token",
            xticks=np.arange(len(names)) + 0.4,
            xticklabels=names,
        )
    panels[0].set_ylabel("Tokens, %")
    panels[1].legend(fontsize="small")
    figure.savefig(file, dpi=120)
