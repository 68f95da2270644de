"""MovieLens's attributes of users and movies, by release."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.datasets.download import read_download
from recsys.data.formats.lines import parse_lines

# The last 19 fields of a movie of MovieLens-100K, in the order of `u.genre`.
_GENRES_100K = (
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)


@dataclass(frozen=True)
class Attributes:
    """Files and line formats of a release's users and movies.

    Args:
        users: Path of the users in the archive.
        user: Regular expression of a line: id, age, occupation.
        movies: Path of the movies in the archive.
        movie: Regular expression of a line: id, title, genres.
        genres: From the genres as they are written to their names.
    """

    users: str
    user: str
    movies: str
    movie: str
    genres: Callable[[str], list[str]]

    def read(
        self, raw_dir: Path, archive: str, progress: Progress
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Reads users and movies.

        Args:
            raw_dir: Folder of the download.
            archive: Name of the zip archive.
            progress: Shows how many bytes are done.

        Returns:
            The columns user, age and occupation, and item, title and genres.

        Raises:
            DataError: A file is missing or broken.
        """
        download = raw_dir, archive, self.users
        users = _lines(*download, self.user, "id, age, occupation", progress)
        of_users = pd.DataFrame(
            {
                "user": [int(user) for user, _, _ in users],
                "age": [float(age) for _, age, _ in users],
                "occupation": [occupation for _, _, occupation in users],
            }
        )
        return of_users, self.read_movies(raw_dir, archive, progress)

    def read_movies(
        self, raw_dir: Path, archive: str, progress: Progress
    ) -> pd.DataFrame:
        """Reads the movies alone: the columns item, title and genres.

        The arguments and errors are those of `read`.
        """
        download = raw_dir, archive, self.movies
        movies = _lines(*download, self.movie, "id, title, genres", progress)
        return pd.DataFrame(
            {
                "item": [int(movie) for movie, _, _ in movies],
                "title": [title for _, title, _ in movies],
                "genres": [
                    np.array(self.genres(genres), object)
                    for _, _, genres in movies
                ],
            }
        )


def _lines(
    raw_dir: Path,
    archive: str,
    member: str,
    form: str,
    fields: str,
    progress: Progress,
) -> list[list[str]]:
    """The fields of each line of a file of the download."""
    file, text = read_download(raw_dir, archive, member)
    return [
        [field.decode("latin-1") for field in line]
        for chunk in parse_lines(text, form, fields, file, progress)
        for line in chunk
    ]


def _flagged(flags: str) -> list[str]:
    """The genres of flags such as `0|0|1`."""
    return [
        genre
        for genre, flag in zip(_GENRES_100K, flags.split("|"), strict=True)
        if flag == "1"
    ]


ATTRIBUTES_100K = Attributes(
    users="ml-100k/u.user",
    user=r"(\d{1,18})\|(\d{1,3})\|[FM]\|([^|\r\n]*)\|[^|\r\n]*",
    movies="ml-100k/u.item",
    # Between title and genres, two dates and an address.
    movie=r"(\d{1,18})\|(.*)(?:\|[^|\r\n]*){3}\|([01](?:\|[01]){18})",
    genres=_flagged,
)

ATTRIBUTES_1M = Attributes(
    users="ml-1m/users.dat",
    user=r"(\d{1,18})::[FM]::(\d{1,3})::(\d{1,3})::[^:\r\n]*",
    movies="ml-1m/movies.dat",
    movie=r"(\d{1,18})::(.*)::([^:\r\n]*)",
    genres=lambda genres: genres.split("|"),
)
