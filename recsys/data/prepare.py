from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from recsys.data.dataset import SPLITS
from recsys.data.dataset import Dataset
from recsys.data.dataset import check_vacant
from recsys.data.error import DataError
from recsys.data.movielens_1m import movielens_1m
from recsys.data.movielens_100k import movielens_100k

DATA_SETS: dict[str, Callable[[Path, int, Progress], Dataset]] = {
    "movielens-100k": movielens_100k,
    "movielens-1m": movielens_1m,
}


def prepare(
    name: str,
    raw_dir: str | Path,
    out: str | Path,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, int]:
    """Turns a raw download into a data folder.

    The folder appears when it is whole: after an error or an interruption
    there is none. The same download and seed give the same bytes.

    Args:
        name: `"movielens-1m"` or `"movielens-100k"`.
        raw_dir: Folder of the download.
        out: Data folder to write: new or empty.
        seed: Seed of what is drawn, not negative.
        progress: Whether to show progress bars on a terminal.

    Returns:
        The number of rows of each split.

    Raises:
        DataError: The name is unknown, the download is missing or broken, or
            something is in the way of the data folder.
        ValueError: The seed is negative.
    """
    if name not in DATA_SETS:
        raise DataError.at(
            "`name`", f"one of the data sets {sorted(DATA_SETS)}", repr(name)
        )
    if seed < 0:
        raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
    check_vacant(out)
    console = Console(stderr=True)
    shown = progress and console.is_terminal
    with Progress(console=console, disable=not shown) as bar:
        dataset = DATA_SETS[name](Path(raw_dir), seed, bar)
        dataset.write(out)
    return {split: len(dataset.split(split)) for split in SPLITS}
