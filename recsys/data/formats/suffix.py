from pathlib import Path

from recsys.errors import DataError

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


def suffix_of(path: Path) -> str:
    """Returns which of `SUFFIXES` a file has.

    Raises:
        DataError: None of them.
    """
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix
    raise DataError.at(
        path, f"a file name ending in one of {SUFFIXES}", repr(path.name)
    )
