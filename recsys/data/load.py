from pathlib import Path

from recsys.data.dataset import Dataset
from recsys.data.datasets.synthetic import synthetic
from recsys.data.image_dataset import ImageDataset
from recsys.data.schema import Schema
from recsys.data.split_dataset import read_schema
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.data.streaming.streamed_dataset import is_large

AnyDataset = Dataset | ImageDataset | StreamedDataset


def load_schema(source: str | Path) -> Schema:
    """Loads the schema of a data set alone.

    Args:
        source: As `load` takes it.

    Raises:
        DataError: There is no data folder, or no schema in it.
    """
    return synthetic().schema if source == "synthetic" else read_schema(source)


def load(
    source: str | Path, seed: int = 0, streaming: bool | None = None
) -> AnyDataset:
    """Loads a data set, every value checked.

    Args:
        source: `"synthetic"`, or a data folder (write `./synthetic` for a
            folder of that name).
        seed: Seed of the synthetic data set.
        streaming: Boolean, whether few rows are held in memory at a time. As
            `is_large` says unless given.

    Returns:
        The data set, of tables or of images as its `dataset.json` says.

    Raises:
        DataError: A file, a column or a value of the folder is missing or
            wrong.
        ValueError: `streaming` is `True` for what is no folder of tables.

    Example:
    >>> dataset = load("synthetic")
    >>> list(dataset.schema.tasks)
    ['watch', 'rating']
    """
    if streaming is None:
        streaming = is_large(source)
    if source == "synthetic":
        _check_in_memory(streaming, "the generated data set")
        return synthetic(seed=seed)
    if read_schema(source).holds_images:
        _check_in_memory(streaming, "images")
        return ImageDataset.read(source)
    return StreamedDataset.read(source) if streaming else Dataset.read(source)


def _check_in_memory(streaming: bool, what: str) -> None:
    if streaming:
        raise ValueError(
            "`streaming` must be False unless the data are a folder of tables. "
            f"Received: streaming=True for {what}"
        )
