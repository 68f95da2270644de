from pathlib import Path

from recsys.data.dataset import Dataset
from recsys.data.synthetic import synthetic


def load(source: str | Path, seed: int = 0) -> Dataset:
    """Loads a data set, every value checked.

    Args:
        source: `"synthetic"`, or a data folder (write `./synthetic` for a
            folder of that name).
        seed: Seed of the synthetic data set.

    Returns:
        The data set.

    Raises:
        DataError: A file, a column or a value of the folder is missing or
            wrong.

    Example:
    >>> dataset = load("synthetic")
    >>> dataset.schema.tasks
    {'watch': 'binary', 'rating': 'regression'}
    """
    if source == "synthetic":
        return synthetic(seed=seed)
    return Dataset.read(source)
