from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from recsys.errors import DataError
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.exporting.input_names import INPUTS_FILE
from recsys.exporting.input_names import read_input_names
from recsys.exporting.raw_inputs import raw_inputs
from recsys.exporting.served_ranker import BUDGET
from recsys.features.feature import Feature
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.runner import load
from recsys.serving.tensor_spec import Arrays

_ROWS_AT_ONCE = 4096


class ServedScores:
    """An exported model, asked for whole splits.

    Attributes:
        outputs: By name, the shape of each output.
        classes: By multiclass task, its classes.
        size: Bytes of all its files.

    Args:
        folder: Folder of the model.

    Raises:
        FileError: There is no model of `recsys export`, or a broken one.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / INPUTS_FILE).is_file():
            raise FileError.at(
                folder, "a model that `recsys export` has written", "none"
            )
        self._runner = load(folder)
        self._folder = folder
        signature = self._runner.signatures[DEFAULT_SIGNATURE]
        self._inputs = signature.inputs
        self._names = self._read_names()
        self.outputs = {
            name: spec.shape for name, spec in signature.outputs.items()
        }
        self.classes = {
            task: [*classes.names]
            for task, classes in signature.classes.items()
        }
        files = (file for file in folder.rglob("*") if file.is_file())
        self.size = sum(file.stat().st_size for file in files)

    def _read_names(self) -> dict[str, str]:
        """The input of each feature; each input is that of one."""
        file = self._folder / INPUTS_FILE
        expected = f"the inputs {[*self._inputs]} by feature"
        with reading(file, expected):
            names = read_input_names(self._folder)
            if not all(isinstance(name, str) for name in names.values()):
                raise FileError.at(file, expected, shown(names))
        given = {*names.values()}
        unnamed = {*self._inputs} - given
        if (
            len(given) < len(names)
            or given - {*self._inputs}
            or (unnamed - {BUDGET})
        ):
            raise FileError.at(file, expected, shown([*names.values()]))
        return names

    def check_fits(self, features: Mapping[str, Feature], data: object) -> None:
        """Checks that data have all features of the model.

        Raises:
            FileError: They have not.
        """
        missing = [name for name in self._names if name not in features]
        if missing:
            file = self._folder / INPUTS_FILE
            raise FileError.at(
                data, f"the features of {file}", f"none named {missing}"
            )

    def raw(self, rows: pd.DataFrame, kinds: Mapping[str, Feature]) -> Arrays:
        """Returns rows as the model takes them.

        Args:
            rows: Rows with the features.
            kinds: By feature, its kind.
        """
        file = self._folder / INPUTS_FILE
        expected = "inputs for the features of the data"
        with reading(file, expected):
            try:
                return raw_inputs(rows, kinds, self._inputs, self._names)
            except DataError as error:  # Of the data, by another kind.
                raise FileError.at(file, expected, str(error)) from error

    def predict(
        self, rows: pd.DataFrame, kinds: Mapping[str, Feature]
    ) -> Arrays:
        """Returns all outputs for rows, arrays `(rows, ...)`, in float64.

        Args:
            rows: Rows with the features, at least one.
            kinds: By feature, its kind.

        Raises:
            FileError: A prediction is not finite.
        """
        parts = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = self.raw(rows[start : start + _ROWS_AT_ONCE], kinds)
            parts.append(self._runner.run(DEFAULT_SIGNATURE, part))
        outputs = {
            name: np.concatenate([part[name] for part in parts]).astype(float)
            for name in parts[0]
        }
        for name, values in outputs.items():
            wrong = ~np.isfinite(values)
            if wrong.any():
                raise FileError.at(
                    self._folder,
                    f"finite predictions of {name!r}",
                    f"{wrong.sum():,} of {wrong.size:,} that are not",
                )
        return outputs

    def seconds(self, raw: Arrays) -> float:
        """Returns how long a batch takes, once."""
        start = perf_counter()
        self._runner.run(DEFAULT_SIGNATURE, raw)
        return perf_counter() - start
