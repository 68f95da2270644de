from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recsys.errors import ExportError
from recsys.serving.formats import known_format

if TYPE_CHECKING:
    import numpy as np

    from recsys.exporting.served_ranker import ServedRanker
    from recsys.exporting.two_stage import TwoStage

Arrays = Mapping[str, "np.ndarray"]


class ExportFormat:
    """A form in which a ranker is served without this package.

    The stage calls `write` and then checks the folder: a fresh process, in
    which neither Keras nor `keras_moe` can be imported, calls `load` and runs
    what it returns on raw features at several batch sizes; the outputs have
    to be the ranker's. That check is the same for all formats.

    Keras and the libraries of a format are imported inside the methods:
    listing the formats does not need them.

    Attributes:
        title: What messages call it.
        backend: The Keras backend under which `write` has to run. The stage
            starts a process for it where another one is active.

    Args:
        name: What `recsys.serving.formats.FORMATS` and the command line call
            it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.title = known_format(name).title
        self.backend = known_format(name).backend

    def write(self, served: "ServedRanker", folder: Path) -> None:
        """Writes all files of the model, under `backend`.

        What is written takes the raw features, by the names and with the
        types, ranks and padding of `ServedRanker.inputs`, for any batch size,
        none included, and returns the outputs of `ServedRanker.__call__` by
        their names. `folder / INPUTS_FILE` of `recsys.exporting.input_names`,
        which says what the input of each feature is called, is the stage's.

        Args:
            served: What to write; its weights are those under `backend`.
            folder: Where to write, not there yet. It becomes visible to others
                only once it has been checked.
        """
        raise NotImplementedError

    def check_index(self, index: str) -> None:
        """Checks that two stages with such an index can be written.

        Args:
            index: One of `recsys.exporting.item_index.INDEXES`.

        Raises:
            ValueError: They cannot.
        """

    def write_two_stages(self, model: "TwoStage", folder: Path) -> None:
        """Writes retrieval and ranking as one model, under `backend`.

        Args:
            model: What to write; it says what the inputs and outputs are.
            folder: Where to write, not there yet.

        Raises:
            ExportError: Something of the model cannot be written so, or the
                format has no two stages.
        """
        raise ExportError(
            "`format` must be one that two stages can be written in. "
            f"Received: format={self.name!r}"
        )

    def load(self, folder: Path) -> "Callable[[Arrays], dict[str, np.ndarray]]":
        """Loads what `write` wrote where Keras cannot be imported.

        Args:
            folder: The folder that `write` has filled.

        Returns:
            A function from NumPy arrays by input, `(batch,)` or
            `(batch, any)` with texts as objects, to NumPy arrays by output,
            `(batch,)` or `(batch, n)`. It can be called again and again, with
            batches of any size.
        """
        raise NotImplementedError
