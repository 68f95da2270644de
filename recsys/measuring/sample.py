from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recsys.data import DataError
from recsys.data.load import AnyDataset
from recsys.errors.reading import reading
from recsys.files.atomic import replacing
from recsys.files.npz_file import read_npz
from recsys.models.multi_task_model import MultiTaskModel
from recsys.tasks.chains import labels_of

MOST_ROWS = 4096


@dataclass(frozen=True)
class Sample:
    """Rows of the validation split to watch, and draw, the routing on.

    Attributes:
        inputs: What the model takes, arrays by feature.
        labels: Float array `(rows,)` for each task, NaN where missing.
    """

    inputs: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    @classmethod
    def of(cls, model: MultiTaskModel, dataset: AnyDataset) -> "Sample":
        """Draws at most 4,096 rows, always the same of a data set."""
        validation = dataset.split("validation")
        size = min(MOST_ROWS, len(validation))
        rows = validation.sample(size, random_state=0)
        return cls(model.encode(rows), labels_of(rows, model.tasks))

    @classmethod
    def read(cls, file: Path, model: MultiTaskModel) -> "Sample":
        """Reads what `write` has written.

        Args:
            file: The file.
            model: The model of the run.

        Raises:
            DataError: The file is broken, or of another model.
        """
        names = [f"inputs/{name}" for name in model.features]
        names += [f"labels/{task}" for task in model.tasks]
        arrays = read_npz(file, names)
        rows = {name: x.shape[:1] for name, x in arrays.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "iuf":
                raise DataError.at(
                    file, "numbers", f"{array.dtype}", column=name
                )
            if rows[name] in ((), (0,)) or rows[name] != rows[names[0]]:
                raise DataError.at(
                    file, "the same rows in all arrays", f"{rows}", column=name
                )
        sample = cls({}, {})
        for name, array in arrays.items():
            kind, _, key = name.partition("/")
            getattr(sample, kind)[key] = array
        with reading(file, "a sample for the model of the run", DataError):
            model.check_inputs(sample.inputs)
        return sample

    def write(self, file: Path) -> None:
        """Writes the sample as an `.npz` file, whole or not at all."""
        arrays: dict[str, Any] = {
            f"inputs/{name}": x for name, x in self.inputs.items()
        }
        arrays |= {f"labels/{task}": y for task, y in self.labels.items()}
        with replacing(file) as unfinished:
            np.savez_compressed(unfinished, **arrays)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))
