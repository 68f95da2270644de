from pathlib import Path

from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import split_files

# Of the files of the splits together. In memory, rows take several times what
# they take in a file.
MOST_BYTES = 1 << 28


def is_large(source: str | Path) -> bool:
    """Returns whether a data set is streamed by default.

    That is so for tables whose files have more than 256 MiB together, on any
    machine, so that what a training does depends on its data alone.

    Args:
        source: `"synthetic"`, or a data folder.

    Raises:
        DataError: There is no data folder, or no schema or split in it.
    """
    if source == "synthetic" or read_schema(source).holds_images:
        return False
    files = [file for split in SPLITS for file in split_files(source, split)]
    return sum(file.stat().st_size for file in files) > MOST_BYTES
