import warnings

import pandas as pd

from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonObject

# Up to here, a soft permutation counts as one: no entry is further than that
# from 0 or 1.
LARGEST_DISTANCE = 0.1

_COLUMN = "permutation_distance"


def search_distance(
    config: ResolvedConfig, history: pd.DataFrame
) -> float | dict[str, float] | None:
    """Returns how far from a permutation a search has ended.

    Args:
        config: The configuration of a run.
        history: Its `history.csv`, with the columns that
            `keras_moe.callbacks.PermutationSearch` logs.

    Returns:
        The distance between the soft and the hard matrix after the last epoch
        of the search, or after that of the training, where that is the
        earlier one; where there are several permutations, one for each by its
        name; `None` where nothing was searched for.
    """
    epochs = min(config.search_epochs, len(history))
    distances = {
        column.removesuffix(_COLUMN).removesuffix("_"): float(
            history[column].iloc[epochs - 1]
        )
        for column in map(str, history)
        if column == _COLUMN or column.endswith(f"_{_COLUMN}")
    }
    return distances.get("", distances or None)


def largest_distance(distance: float | dict[str, float]) -> float:
    """Returns the one of a search, or the largest of several permutations'.

    Example:
    >>> largest_distance({"permutation_3": 0.0, "permutation_7": 1.5})
    1.5
    """
    if isinstance(distance, dict):
        return max(distance.values())
    return distance


def warn_if_apart(metrics: JsonObject) -> None:
    """Warns where a search has ended far from a permutation.

    Args:
        metrics: The content of `metrics.json`.
    """
    distance = metrics.get(_COLUMN)
    if distance is None or largest_distance(distance) <= LARGEST_DISTANCE:
        return
    named = distance if isinstance(distance, dict) else {"": distance}
    distances = ", ".join(
        f"{name} {value:.2f}".strip()
        for name, value in named.items()
        if value > LARGEST_DISTANCE
    )
    warnings.warn(
        "the permutation local search has ended at a matrix that is no "
        "permutation: expected a distance of at most "
        f"{LARGEST_DISTANCE:g}. Received: {distances}. The permutation that is "
        "nearest to it took its place, so the experts go on with other weights "
        "than the ones that they were trained with",
        stacklevel=2,
    )
