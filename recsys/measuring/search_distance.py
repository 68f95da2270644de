import pandas as pd

from recsys.config.resolved_config import ResolvedConfig

# Of `history.csv` and of `metrics.json`.
DISTANCE = "permutation_distance"


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
        column.removesuffix(DISTANCE).removesuffix("_"): float(
            history[column].iloc[epochs - 1]
        )
        for column in map(str, history)
        if column == DISTANCE or column.endswith(f"_{DISTANCE}")
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
