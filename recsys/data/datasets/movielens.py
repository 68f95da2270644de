from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import is_in_download
from recsys.data.datasets.download import read_download
from recsys.data.datasets.histories import drawn_times
from recsys.data.datasets.histories import histories
from recsys.data.datasets.movielens_attributes import ATTRIBUTES_1M
from recsys.data.datasets.movielens_attributes import ATTRIBUTES_100K
from recsys.data.datasets.movielens_attributes import Attributes
from recsys.data.datasets.published_subsample import published_subsample
from recsys.data.datasets.ratings import parse_ratings
from recsys.data.datasets.two_tasks import two_tasks
from recsys.data.datasets.two_tasks import two_tasks_schema
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.schema import Schema
from recsys.data.splitting import split_rows
from recsys.errors import DataError
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Ids
from recsys.features import Number
from recsys.features import Sequence

_TEST, _VALIDATION_OF_REST = 0.1, 0.125  # Shares of the rows.
_HISTORY = 50  # Most movies of a history.
_TIMES = 1  # Keeps the draw of times apart from that of negative rows.
_FURTHER: dict[str, Feature] = {
    "genres": Ids(),
    "age": Number(),
    "occupation": Id(),
    "history": Sequence(
        of="item", length=_HISTORY, pooling="attention", query="item"
    ),
}


@dataclass(frozen=True)
class MovieLens:
    """Prepares a MovieLens release as two tasks, watch and rating.

    10 % of the rows are the test split and 12.5 % of the rest the validation
    split, both with the same share of watched movies as the whole, or the
    latest rows. Rankings are those of a user's rows.

    A file with the release's number of ratings must also give the release's
    other counts; any other number of ratings is taken as a subset.

    Args:
        name: Name of the data set.
        archive: Name of the downloaded zip archive.
        member: Path of the ratings in the archive.
        separator: What stands between the fields of a rating.
        counts: Ratings, users and movies of the release, and the rows of the
            three splits made from it.
        attributes: What the release tells of users and movies.

    References:
        Harper, Konstan. The MovieLens Datasets: History and Context. ACM
        Transactions on Interactive Intelligent Systems 5 (4), 2015.
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, supplement S1.1.
    """

    name: str
    archive: str
    member: str
    separator: str
    counts: dict[str, int]
    attributes: Attributes

    def __call__(
        self,
        raw_dir: Path,
        seed: int,
        progress: Progress,
        subsample: str | None = None,
        features: str = "ids",
        split: str = "random",
    ) -> Dataset:
        """Reads the download and builds the data set.

        Args:
            raw_dir: Folder of the download: the archive, or what is in it.
            seed: Seed of the negative rows, of their times and of the
                subsample. Drawn splits do not depend on it.
            progress: Shows how far reading and sampling are.
            subsample: `"published"` for the rows of the users who have rated
                most, as `recsys.data.datasets.published_subsample` draws
                them. All rows unless given.
            features: `"ids"` of users and movies alone, as published, or
                `"all"`: beside them the movie's genres, the user's age and
                occupation, and the last 50 movies that the user rated before
                (or, in a release without times, that stand before in the
                file). Rows of unwatched movies are at the time of one of the
                user's ratings.
            split: `"random"`, as published, where histories are of movies of
                the training split, as all others are of rows to be predicted;
                or by `"time"`, where the test split is after the validation
                split, and that after the training split, histories are of all
                that was rated before a row, and rows have their times.

        Returns:
            The data set.

        Raises:
            DataError: The download is missing or broken, or too small for a
                subsample, or has no times to be split by.
            ValueError: The subsample, the features or the split are unknown.
        """
        if subsample not in (None, "published"):
            raise ValueError(
                "`subsample` must be 'published' or left out. "
                f"Received: subsample={subsample!r}"
            )
        if features not in ("ids", "all"):
            raise ValueError(
                "`features` must be 'ids' or 'all'. "
                f"Received: features={features!r}"
            )
        if split not in ("random", "time"):
            raise ValueError(
                f"`split` must be 'random' or 'time'. Received: split={split!r}"
            )
        file, text = read_download(raw_dir, self.archive, self.member)
        ratings = parse_ratings(text, file, self.separator, progress)
        rows = two_tasks(ratings, seed, progress)
        if split == "time" and "time" not in ratings:
            raise DataError.at(
                file, "ratings with times, to split by", "none with a time"
            )
        if features == "all" or split == "time":
            # Positive rows come first, in the order of the ratings.
            lines = pd.Series(ratings.index, ratings.index)
            rows["time"] = ratings.get("time", lines).reindex(rows.index)
            generator = np.random.default_rng([seed, _TIMES])
            rows["time"] = drawn_times(rows, generator)
        if split == "time":
            splits = _split_by_time(rows, file)
        else:
            # The published splits are those of seed 0.
            splits = split_rows(
                rows, "watch", _TEST, _VALIDATION_OF_REST, 0, file
            )
        counts = {
            "ratings": len(ratings),
            "users": ratings["user"].nunique(),
            "movies": ratings["item"].nunique(),
            **{name: len(part) for name, part in splits.items()},
        }
        check_release(self.name, file, counts, self.counts)
        if subsample is not None:
            splits = published_subsample(splits, seed, file)
        schema = _schema(
            self.name,
            _FURTHER if features == "all" else {},
            "time" if split == "time" else None,
        )
        if features == "ids":
            return Dataset(
                schema,
                {
                    name: part[[*schema.columns]]
                    for name, part in splits.items()
                },
                items=self._movies(raw_dir, progress),
            )
        known = [splits["train"]] if split == "random" else splits.values()
        described = self.attributes.read(raw_dir, self.archive, progress)
        return _with_features(schema, splits, pd.concat(known), *described)

    def _movies(self, raw_dir: Path, progress: Progress) -> pd.DataFrame | None:
        """The titles of movies, where the download has them."""
        member = self.attributes.movies
        if not is_in_download(raw_dir, self.archive, member):
            return None
        movies = self.attributes.read_movies(raw_dir, self.archive, progress)
        return movies[["item", "title"]]


def _schema(
    name: str, further: Mapping[str, Feature], time: str | None
) -> Schema:
    """The two tasks of a release with more features than the ids."""
    tasks = two_tasks_schema(name)
    features = {**tasks.features, **further}
    of_movies = [name for name in ("genres",) if name in features]
    return Schema(
        name,
        features,
        tasks.tasks,
        group="user",
        time=time,
        item="item",
        item_features=of_movies,
    )


def _split_by_time(rows: pd.DataFrame, file: object) -> dict[str, pd.DataFrame]:
    """The latest rows for the test, those before them for validation."""
    order = row_order(len(rows), rows["time"], seed=0)
    shares = {"validation": _VALIDATION_OF_REST * (1 - _TEST), "test": _TEST}
    return cut(rows.iloc[order], shares, file)


def _with_features(
    schema: Schema,
    splits: Mapping[str, pd.DataFrame],
    known: pd.DataFrame,
    users: pd.DataFrame,
    movies: pd.DataFrame,
) -> Dataset:
    """Adds what is known of users and movies, and of what was watched before.

    Args:
        schema: What the columns mean.
        splits: The rows, with their times.
        known: The rows of which histories may tell.
        users: What is known of each user.
        movies: What is known of each movie.
    """
    watched = known[known["watch"] == 1]
    complete = {}
    for split, rows in splits.items():
        history = histories(rows, watched, _HISTORY)
        joined = (
            rows.assign(history=history)
            .merge(users, on="user", how="left")
            .merge(movies.drop(columns="title"), on="item", how="left")
        )
        complete[split] = parse(joined, schema.columns, schema.name)
    return Dataset(schema, complete, items=movies[["item", "title"]])


MOVIELENS_100K = MovieLens(
    name="movielens-100k",
    archive="ml-100k.zip",
    member="ml-100k/u.data",
    separator="\t",
    counts={
        "ratings": 100_000,
        "users": 943,
        "movies": 1_682,
        "train": 157_500,
        "validation": 22_500,
        "test": 20_000,
    },
    attributes=ATTRIBUTES_100K,
)

MOVIELENS_1M = MovieLens(
    name="movielens-1m",
    archive="ml-1m.zip",
    member="ml-1m/ratings.dat",
    separator="::",
    counts={
        "ratings": 1_000_209,
        "users": 6_040,
        "movies": 3_706,
        "train": 1_574_602,
        "validation": 224_944,
        "test": 199_950,
    },
    attributes=ATTRIBUTES_1M,
)
