from pathlib import Path

from recsys.data.dataset import Dataset
from recsys.data.datasets.synthetic import synthetic
from recsys.data.image_dataset import ImageDataset
from recsys.data.schema import Schema
from recsys.data.split_dataset import read_schema

AnyDataset = Dataset | ImageDataset


def load_schema(source: str | Path) -> Schema:
    """Loads the schema of a data set alone.

    Args:
        source: As `load` takes it.

    Raises:
        DataError: There is no data folder, or no schema in it.
    """
    return synthetic().schema if source == "synthetic" else read_schema(source)


def load(source: str | Path, seed: int = 0) -> AnyDataset:
    """Loads a data set, every value checked.

    Args:
        source: `"synthetic"`, or a data folder (write `./synthetic` for a
            folder of that name).
        seed: Seed of the synthetic data set.

    Returns:
        The data set, of tables or of images as its `dataset.json` says.

    Raises:
        DataError: A file, a column or a value of the folder is missing or
            wrong.

    Example:
    >>> dataset = load("synthetic")
    >>> list(dataset.schema.tasks)
    ['watch', 'rating']
    """
    if source == "synthetic":
        return synthetic(seed=seed)
    if read_schema(source).holds_images:
        return ImageDataset.read(source)
    return Dataset.read(source)
