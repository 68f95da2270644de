import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from recsys.data.custom_table import custom_table
from recsys.data.datasets.ali_ccp import ali_ccp
from recsys.data.datasets.books import books
from recsys.data.datasets.celeba import celeba
from recsys.data.datasets.census_income import census_income
from recsys.data.datasets.cifar10 import cifar10
from recsys.data.datasets.comet_rows import comet_rows
from recsys.data.datasets.digits import digits
from recsys.data.datasets.item_lists import item_lists
from recsys.data.datasets.jester import jester
from recsys.data.datasets.movielens import MOVIELENS_1M
from recsys.data.datasets.movielens import MOVIELENS_100K
from recsys.data.datasets.multi_mnist import MultiMNIST
from recsys.data.datasets.rated_items import rated_items
from recsys.data.datasets.sequences import sequences
from recsys.data.datasets.svhn import svhn
from recsys.data.labels import warn_of_missing_labels
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import SplitDataset
from recsys.data.split_dataset import check_vacant
from recsys.errors import DataError
from recsys.errors.arguments import typed_arguments
from recsys.errors.bounds import check_seed
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer

# Each takes a folder, a seed, a progress bar and options of its own.
DATA_SETS: dict[str, Callable[..., SplitDataset[Any]]] = {
    "ali-ccp": ali_ccp,
    "books": books,
    "celeba": celeba,
    "census-income": census_income,
    "cifar10": cifar10,
    "comet-rows": comet_rows,
    "digits": digits,
    "item-lists": item_lists,
    "jester": jester,
    "movielens-100k": MOVIELENS_100K,
    "movielens-1m": MOVIELENS_1M,
    "multi-fashion-mnist": MultiMNIST("multi-fashion-mnist"),
    "multi-mnist": MultiMNIST("multi-mnist"),
    "ratings": rated_items,
    "sequences": sequences,
    "svhn": svhn,
    "table": custom_table,
}


def prepare(
    name: str,
    raw_dir: str | Path,
    out: str | Path,
    seed: int = 0,
    progress: bool = True,
    **options: object,
) -> dict[str, int]:
    """Turns a raw download into a data folder.

    The folder appears when it is whole: after an error or an interruption
    there is none. The same download, seed and options give the same bytes.

    Args:
        name: One of `DATA_SETS`, such as `"movielens-1m"`; `"table"` for files
            of one's own.
        raw_dir: Folder of the download.
        out: Data folder to write: new or empty.
        seed: Seed of what is drawn, at least 0 and below 2^32.
        progress: Whether to show progress bars on a terminal.
        **options: Options of the data set, or texts that say them.

    Returns:
        The number of rows of each split.

    Raises:
        DataError: The name is unknown, the download is missing or broken, or
            something is in the way of the data folder, or what would be in
            it cannot be trained on.
        RunError: Another process is writing to `out`.
        ValueError: The seed or an option is outside its bounds, or an option
            is unknown or missing.
    """
    dataset = prepare_dataset(name, raw_dir, out, options, seed, progress)
    return {split: len(dataset.split(split)) for split in SPLITS}


def prepare_dataset(
    name: str,
    raw_dir: str | Path,
    out: str | Path,
    options: JsonMapping,
    seed: int = 0,
    progress: bool = True,
) -> SplitDataset[Any]:
    """Prepares as `prepare` does, and returns the data set.

    Its `summary` tells the range of time of each split, where there is one,
    and how many of its ids are not in the training split.

    Args:
        name: One of `DATA_SETS`.
        raw_dir: Folder of the download.
        out: Data folder to write: new or empty.
        options: Options of the data set by name, or texts that say them.
        seed: Seed of what is drawn, at least 0 and below 2^32. Defaults to 0.
        progress: Whether to show progress bars on a terminal. Defaults to
            `True`.

    Raises:
        DataError, RunError, ValueError: As `prepare`.
    """
    if name not in DATA_SETS:
        raise DataError.at(
            "`name`", f"one of the data sets {sorted(DATA_SETS)}", repr(name)
        )
    check_seed(seed)
    data_set = DATA_SETS[name]
    typed = _typed_options(name, data_set, options)
    console = Console(stderr=True)
    shown = progress and console.is_terminal
    with (
        sole_writer(out),
        Progress(console=console, disable=not shown) as bar,
    ):
        check_vacant(out)
        dataset = data_set(Path(raw_dir), seed, bar, **typed)
        dataset.write(out)
    warn_of_missing_labels(dataset.splits, dataset.schema.tasks, out)
    return dataset


def _typed_options(
    name: str,
    data_set: Callable[..., SplitDataset[Any]],
    options: JsonMapping,
) -> JsonObject:
    signature = inspect.signature(data_set, eval_str=True)
    parameters = list(signature.parameters.values())[3:]
    what = f"`options` of the data set {name!r}"
    for option in parameters:
        if option.default is option.empty and option.name not in options:
            raise ValueError(
                f"{what} must name {option.name}. Received: {list(options)}"
            )
    hints = {option.name: option.annotation for option in parameters}
    return typed_arguments(what, options, hints)
