from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.download import find_download
from recsys.data.datasets.joke_ratings import parse_joke_ratings
from recsys.data.datasets.release import check_release
from recsys.data.datasets.two_tasks import two_tasks_schema
from recsys.data.splitting import split_rows
from recsys.errors import DataError

PARTS = (1, 2, 3)
RELEASE = {"users": 73_421, "ratings": 4_136_360}


def jester(
    raw_dir: Path, seed: int, progress: Progress, scale: float = 5.0
) -> Dataset:
    """Prepares the Jester ratings as two tasks, watch and rating.

    Every pair of a user and a joke is a row: watch is whether the user has
    rated the joke, the rating is missing where not. 70 % of the rows are the
    training split, 15 % each the validation and the test split, all with the
    same share of ratings.

    The papers report mean squared errors of 0.73 to 0.75, too little for
    ratings from -10 to 10, whose variance is 27 in part 1. Divided by 5 it is
    1.1, of which a model may well leave that much.

    Args:
        raw_dir: Folder with any of the three parts: `jester-data-1.xls` (or
            `.csv`) and so on, or zip archives of them, `jester-data-1.zip` or
            `jester_dataset_1_1.zip`. Users are numbered from 1, through all
            parts that are there; jokes from 1 to 100. All parts together must
            have the published number of ratings; fewer are taken as a subset.
        seed: Seed of the splits.
        progress: Shows how many parts are read.
        scale: Divisor of the ratings.

    Returns:
        The data set.

    Raises:
        DataError: The download is missing or broken.
        ValueError: The scale is not positive and finite.

    References:
        Goldberg, Roeder, Gupta, Perkins. Eigentaste: A Constant Time
        Collaborative Filtering Algorithm. Information Retrieval 4 (2), 2001.
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, table 7 (mean squared errors), supplement S1.1.
    """
    if not 0 < scale < np.inf:
        raise ValueError(
            f"`scale` must be positive and finite. Received: scale={scale}"
        )
    ratings = _read_parts(raw_dir, progress)
    counts = {
        "users": len(ratings),
        "ratings": int(np.count_nonzero(~np.isnan(ratings))),
    }
    check_release("jester", raw_dir, counts, RELEASE)
    splits = split_rows(
        _pairs(ratings / scale),
        "watch",
        test=0.15,
        validation=0.15 / 0.85,
        seed=seed,
        source=raw_dir,
    )
    return Dataset(two_tasks_schema("jester"), splits)


def _read_parts(raw_dir: Path, progress: Progress) -> np.ndarray:
    parts = []
    for part in progress.track(PARTS, description="Reading parts"):
        archives = [f"jester-data-{part}.zip", f"jester_dataset_1_{part}.zip"]
        members = [f"jester-data-{part}.xls", f"jester-data-{part}.csv"]
        download = find_download(raw_dir, archives, members)
        if download is not None:
            file, content = download
            parts.append(parse_joke_ratings(content, file))
    if not parts:
        raise DataError.at(
            raw_dir,
            "jester-data-1 to -3, each as .xls, .csv or .zip",
            "none of these files",
        )
    return np.concatenate(parts)


def _pairs(ratings: np.ndarray) -> pd.DataFrame:
    """All pairs of users and jokes, 7 million: in small types where they do."""
    num_users, num_jokes = ratings.shape
    users = np.arange(1, num_users + 1, dtype=np.int32)
    jokes = np.arange(1, num_jokes + 1, dtype=np.int8)
    return pd.DataFrame(
        {
            "user": np.repeat(users, num_jokes),
            "item": np.tile(jokes, num_users),
            "watch": (~np.isnan(ratings)).ravel().astype(np.float64),
            "rating": ratings.ravel(),
        }
    )
