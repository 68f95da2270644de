from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.interactions import all_ids
from recsys.data.split import Split
from recsys.features.id_positions import id_positions
from recsys.features.value_counts import ValueCounts


class IdCodes:
    """The ids that columns of the training split have, numbered.

    Args:
        by_column: The ids by column, each once.
    """

    def __init__(self, by_column: "dict[str, pd.Index]") -> None:
        self.by_column = by_column

    @classmethod
    def fit(cls, train: Split, columns: Sequence[str]) -> "IdCodes":
        """Collects the ids of some columns of the training split."""
        by_column = {}
        for column in columns:
            with ValueCounts() as counts:
                counts.add(train[column])
                by_column[column] = all_ids(counts)
        return cls(by_column)

    @property
    def sizes(self) -> list[int]:
        """For each column, how many codes there are."""
        return [len(known) + 1 for known in self.by_column.values()]

    def codes(self, rows: Split) -> list[np.ndarray]:
        """Returns the numbers of ids, integers `(rows,)` for each column.

        Args:
            rows: The columns. Whoever is unknown has the last number.
        """
        codes = []
        for column, known in self.by_column.items():
            positions = id_positions(rows[column], known)
            codes.append(np.where(positions < 0, len(known), positions))
        return codes

    def write(self, files: ArrayFolder) -> None:
        """Writes the ids, a file for each column."""
        for number, known in enumerate(self.by_column.values()):
            files.write_ids(f"ids_{number}", known)

    @classmethod
    def read(cls, files: ArrayFolder, columns: Sequence[str]) -> "IdCodes":
        """Reads what `write` has written.

        Raises:
            FileError: A file is missing or broken.
        """
        by_column = {
            column: files.read_ids(f"ids_{number}")
            for number, column in enumerate(columns)
        }
        return cls(by_column)
