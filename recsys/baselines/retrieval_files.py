from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.fitted_retrieval import FittedRetrieval
from recsys.baselines.interactions import Interactions
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.errors import FileError
from recsys.errors.reading import reading


def write_retrieval(fitted: FittedRetrieval, folder: Path) -> None:
    """Writes a baseline with what it was fitted on.

    Args:
        fitted: It.
        folder: The folder to write to.
    """
    files, interactions = ArrayFolder(folder), fitted.interactions
    arrays = fitted.model.arrays
    files.write({f"model_{name}": array for name, array in arrays.items()})
    files.write_ids("users", interactions.users)
    files.write_ids("items", interactions.items)
    files.write(
        {
            "history_starts": interactions.matrix.indptr,
            "history_items": interactions.matrix.indices,
            "counts": interactions.counts,
        }
    )


def read_retrieval(
    kind: type[RetrievalBaseline], folder: Path
) -> FittedRetrieval:
    """Reads what `write_retrieval` has written.

    Args:
        kind: The class of the baseline.
        folder: The folder.

    Raises:
        FileError: A file is missing or broken.
    """
    files = ArrayFolder(folder)
    users, items = files.read_ids("users"), files.read_ids("items")
    starts = files.read("history_starts", len(users) + 2)
    history_items = files.read("history_items", None)
    counts = np.array(files.read("counts", len(items)))
    file = folder / "history_items.npy"
    with reading(file, "the items of the users"):
        matrix = csr_array(
            (np.ones(len(history_items), np.float32), history_items, starts),
            shape=(len(users) + 1, len(items)),
        )
        matrix.check_format(full_check=True)
        arrays = {
            name: files.read(f"model_{name}", *shape)
            for name, shape in kind.shapes(len(users), len(items)).items()
        }
    if matrix.indptr[-1] != len(history_items):
        raise FileError.at(
            file, f"{int(matrix.indptr[-1]):,} items", f"{len(history_items):,}"
        )
    interactions = Interactions(users, items, matrix, counts)
    return FittedRetrieval(kind(**arrays), interactions)
